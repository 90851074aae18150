"""Planned send times, in seconds from the start of a run, ascending.

An open-loop load sends at these times whatever the server does, so they are drawn before the run
and one draw can be replayed against several systems. Say how long a run is by either `n` queries or
`duration` seconds, never both.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]


def poisson(
    rate: float, rng: np.random.Generator, *, n: int | None = None, duration: float | None = None
) -> Times:
    """A Poisson process of `rate` queries per second: independent exponential gaps of mean 1/rate.

    With `n`, exactly n times; with `duration`, the times below it (their number is random, of mean
    rate x duration). Raises ValueError for a rate that is not positive, or not exactly one length.
    """
    n, duration = _length(rate, n, duration)
    if n is not None:
        return np.cumsum(rng.exponential(1 / rate, n))
    assert duration is not None
    # Given their number, the points of a Poisson process are independent and uniform.
    return np.sort(rng.uniform(0.0, duration, rng.poisson(rate * duration)))


def constant(rate: float, *, n: int | None = None, duration: float | None = None) -> Times:
    """One query every 1/rate seconds, the first at 0. Raises ValueError as `poisson` does."""
    n, duration = _length(rate, n, duration)
    if n is None:
        assert duration is not None
        # Times below `duration`; the slack keeps 0.1 x 10 from counting as an eleventh query.
        n = math.ceil(rate * duration * (1 - 1e-12))
    return np.arange(n) / rate


def bursts(
    rate: float,
    size: int,
    rng: np.random.Generator,
    *,
    spacing: float = 0.0,
    n: int | None = None,
    duration: float | None = None,
) -> Times:
    """Bursts of `size` queries, `spacing` seconds apart within a burst, at `rate` queries per second overall.

    Bursts begin as a Poisson process of rate / size per second (a batch Poisson process). A burst may
    run into the next one. With `duration`, the bursts that begin below it, cut off there.
    Raises ValueError as `poisson` does, and for a size below 1 or a negative spacing.
    """
    if size < 1:
        raise ValueError(f"size: expected >= 1, got {size}")
    if spacing < 0:
        raise ValueError(f"spacing: expected >= 0 seconds, got {spacing}")
    n, duration = _length(rate, n, duration)
    begins = poisson(rate / size, rng, n=None if n is None else math.ceil(n / size), duration=duration)
    times = np.sort((begins[:, None] + spacing * np.arange(size)).ravel())
    return times[:n] if duration is None else times[times < duration]


def _length(rate: float, n: int | None, duration: float | None) -> tuple[int | None, float | None]:
    if not (math.isfinite(rate) and rate > 0):
        raise ValueError(f"rate: expected queries per second > 0, got {rate}")
    if (n is None) == (duration is None):
        raise ValueError(f"expected exactly one of n and duration, got n={n}, duration={duration}")
    if n is not None and n < 0:
        raise ValueError(f"n: expected >= 0, got {n}")
    if duration is not None and not (math.isfinite(duration) and duration >= 0):
        raise ValueError(f"duration: expected seconds >= 0, got {duration}")
    return n, duration
