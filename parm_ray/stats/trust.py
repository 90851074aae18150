"""Whether a sample is large enough for what is asked of it, and how far its answers may be off."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import genpareto

from parm_ray.stats.order import ascending, order_mean
from parm_ray.stats.summary import Interval, bootstrap_interval

# Below so many values an interval of E[X_{1:r}] is too wide to choose a strategy by.
LEAST = 200

# A quantile is taken from a sample if at least so many values are expected above it.
ABOVE = 10

# Shares of the sample that its tail is judged by; the others are asked before a moment is refused. Where two
# in a hundred calls are ten times slower, the largest tenth looks like a power law and the largest hundredth
# does not; a power law looks like one from wherever it is seen.
TAILS = (0.1, 0.05, 0.02, 0.01)

# Fewer values than these say nothing of a tail's shape.
TAIL_LEAST = 50

RESAMPLES = 500


def require_size(sample: ArrayLike, least: int = LEAST) -> None:
    """Raise ValueError, which says how many are missing, for fewer than `least` values."""
    n = np.asarray(sample).size
    if n < least:
        raise ValueError(
            f"sample: expected at least {least} service times, got {n}: measure {least - n} more"
        )


def require_quantile(sample: ArrayLike, q: float, above: int = ABOVE) -> None:
    """Raise ValueError if a sample is too small for its q-quantile (0 < q < 1): no more is extrapolated."""
    if not 0 < q < 1:
        raise ValueError(f"q: expected between 0 and 1, got {q}")
    n = np.asarray(sample).size
    # 1 - 0.99 is 0.010000000000000009 in binary: without the slack 1000 values would be one too many.
    needed = math.ceil(above / (1 - q) * (1 - 1e-9))
    if n < needed:
        raise ValueError(f"q: a quantile of {q:g} needs {needed} service times, got {n}")


def tail_index(sample: ArrayLike, share: float = TAILS[0]) -> tuple[float, float]:
    """Return the shape xi of the sample's tail and its standard error; P(X > t) falls as t^(-1/xi).

    A generalised Pareto law is fitted by maximum likelihood to what the largest `share` exceeds the rest by
    (Pickands, 1975; the error is Smith's, 1987). xi <= 0: all moments exist (0: an exponential tail). Raises
    ValueError for fewer than `LEAST` values.
    """
    require_size(sample)
    x = ascending(sample)
    count = max(20, int(share * len(x)))
    excess = x[-count:] - x[-count - 1]
    excess = excess[excess > 0]
    # The largest few are equal (a timeout, two modes): there is no tail beyond the sample.
    if len(excess) < 20 or excess[0] == excess[-1]:
        return -1.0, 0.0
    shape, _, _ = genpareto.fit(excess, floc=0)
    return float(shape), (1 + max(float(shape), 0.0)) / math.sqrt(len(excess))


def require_moment(sample: ArrayLike, r: int, power: float) -> None:
    """Raise ValueError if E[X_{1:r}^power] is infinite as far as the sample's tail can tell.

    With P(X > t) like t^(-a) the least of r has moments below r a. power 1: for E[X_{1:r}]; 2: for an
    interval of it, or for the waiting time in a queue; 4: for an interval of E[X_{1:r}^2]. Refused if the
    tail's shape 1 / a is not below r / power, at 90 %, and none of the other `TAILS` that have `TAIL_LEAST`
    values says the contrary, at 90 %: then the figure would be an accident of the few largest values. A small
    sample does not always show such a tail: of 3000 times nine in ten do.
    """
    if r < 1 or not power > 0:
        raise ValueError(f"r, power: expected r >= 1 and power > 0, got {r}, {power}")
    n = np.asarray(sample).size
    shape, error = tail_index(sample)
    further = (tail_index(sample, share) for share in TAILS[1:] if share * n >= TAIL_LEAST)
    if shape - 1.28 * error >= r / power and all(s + 1.28 * e >= r / power for s, e in further):
        raise ValueError(
            f"sample: its tail falls as t^-{1 / shape:.2f}, so that the least of {r} has no moment of order "
            f"{power:g}; use more copies, or bound the service time"
        )


def copies_intervals(
    sample: ArrayLike,
    copies: Sequence[int],
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    block: int = 1,
) -> list[Interval]:
    """Return a bootstrap interval of g(r) = r E[X_{1:r}] for each r of `copies`, server seconds.

    block: consecutive values that are resampled together, see `bootstrap_interval`. Raises ValueError for a
    sample that is too small, or whose tail leaves g(r) without a variance.
    """
    require_size(sample)
    found = []
    for r in copies:
        require_moment(sample, r, 2)
        found.append(
            bootstrap_interval(
                sample,
                lambda x, r=r: r * order_mean(x, 1, r),  # type: ignore[misc]
                rng,
                level=level,
                resamples=resamples,
                block=block,
            )
        )
    return found
