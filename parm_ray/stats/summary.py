"""Percentiles of a latency sample, and how far to trust them.

**Percentile.** Nearest rank: the q-percentile of n values is the ceil(q n)-th smallest, so it is
always a latency that some query had, and at least a share q of the queries were no later. (Hyndman
and Fan, "Sample quantiles in statistical packages", 1996, definition 1.) Interpolating definitions
invent values between the two sides of a tail; numpy's default is one of them.

**Failures.** A query that never got an answer counts as infinitely late: dropping it would let a
server improve its tail by failing. A percentile that falls among the failed is therefore `inf`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Statistic = Callable[[NDArray[np.float64]], float]


class Interval(NamedTuple):
    """A confidence interval, in the unit of the values."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """What is reported of one run; latencies in seconds.

    n: all queries, of which `failed` got no answer. mean: over the answered alone (nan if none were).
    Percentiles are nearest-rank over all n, the failed counted as `inf`.
    """

    n: int
    failed: int
    mean: float
    p50: float
    p90: float
    p99: float
    p99_5: float
    p99_9: float


def percentile(values: ArrayLike, q: float, failed: int = 0) -> float:
    """Return the nearest-rank q-percentile (q in (0, 1]) of the values and `failed` infinities.

    Raises ValueError for an empty sample, a nan, or a q or failed that is out of range.
    """
    return _rank(_sorted(values, failed), q, failed)


def summarise(latencies: ArrayLike, failed: int = 0) -> LatencySummary:
    """Summarise the latencies (seconds) of the answered queries and the number of `failed` ones.

    Raises ValueError if there are neither, or for a nan.
    """
    ordered = _sorted(latencies, failed)
    at = [_rank(ordered, q, failed) for q in (0.5, 0.9, 0.99, 0.995, 0.999)]
    mean = float(ordered.mean()) if len(ordered) else math.nan
    return LatencySummary(len(ordered) + failed, failed, mean, *at)


def bootstrap_interval(
    values: ArrayLike,
    statistic: Statistic,
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    block: int = 1,
) -> Interval:
    """Percentile-bootstrap interval of `statistic` at confidence `level`.

    Resamples `values` with replacement and returns the central `level` of the statistic's values
    (Efron, 1979). Latencies of neighbouring queries are dependent (one stall delays many), which makes
    the plain interval too narrow: `block` > 1 resamples runs of that many consecutive values instead
    (moving-block bootstrap, Kunsch, 1989), so give the values in time order. No resampling knows more
    of a tail than the sample: for p99.9 of a few thousand queries read the interval as a lower bound
    of the uncertainty. Raises ValueError for an empty sample or arguments that are out of range.
    """
    sample = np.asarray(values, dtype=np.float64).ravel()
    if not len(sample):
        raise ValueError("values: expected at least one, got none")
    if not (0 < level < 1 and resamples >= 1 and 1 <= block <= len(sample)):
        raise ValueError(
            f"expected 0 < level < 1, resamples >= 1, 1 <= block <= {len(sample)}, "
            f"got level={level}, resamples={resamples}, block={block}"
        )
    blocks = math.ceil(len(sample) / block)
    found = np.empty(resamples)
    for i in range(resamples):
        begins = rng.integers(0, len(sample) - block + 1, blocks)
        picked = (begins[:, None] + np.arange(block)).ravel()[: len(sample)]
        found[i] = statistic(sample[picked])
    tail = (1 - level) / 2
    return Interval(percentile(found, max(tail, 1 / resamples)), percentile(found, 1 - tail))


def _sorted(values: ArrayLike, failed: int) -> NDArray[np.float64]:
    ordered = np.sort(np.asarray(values, dtype=np.float64).ravel())
    if failed < 0:
        raise ValueError(f"failed: expected >= 0, got {failed}")
    if len(ordered) and math.isnan(ordered[-1]):
        raise ValueError("values: expected numbers, got nan")
    if len(ordered) + failed == 0:
        raise ValueError("values: expected at least one, got none")
    return ordered


def _rank(ordered: NDArray[np.float64], q: float, failed: int) -> float:
    if not 0 < q <= 1:
        raise ValueError(f"q: expected 0 < q <= 1, got {q}")
    n = len(ordered) + failed
    # 0.99 x 100 is 99.00000000000001 in binary: without the slack it would round up to rank 100.
    rank = max(1, math.ceil(q * n * (1 - 1e-12)))
    return float(ordered[rank - 1]) if rank <= len(ordered) else math.inf
