"""The figures of a cell, and how they scatter when its queries are drawn again in blocks.

Neighbouring queries share queues and stalls, so single queries must not be drawn again one by one: the
moving-block bootstrap (Künsch, 1989) draws runs of consecutive ones. It is the method of
`parm_ray.stats.bootstrap_interval`, made for all figures of a large cell at once: the queries are
ranked a single time, and a resample is a count per rank, not another sort.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from parm_ray.stats import Interval, percentile, summarise

Floats = NDArray[np.float64]

# Figure -> share of queries no later than it; the mean is over the answered alone, infinite if none were.
QUANTILES = {
    "p50_ms": 0.5,
    "mean_ms": None,
    "p90_ms": 0.9,
    "p99_ms": 0.99,
    "p995_ms": 0.995,
    "p999_ms": 0.999,
}
FIGURES = tuple(QUANTILES)
MEAN = FIGURES.index("mean_ms")
RESAMPLES = 500
# As in `load_tests.results`: shorter blocks are never right, a stall alone holds as many queries.
SHORTEST_BLOCK = 25


def figures(latency: Floats) -> Floats:
    """The `FIGURES` of one cell, in ms. latency: ms, inf for a failed query. Raises ValueError for none."""
    finite = np.isfinite(latency)
    s = summarise(latency[finite], int(np.count_nonzero(~finite)))
    mean = s.mean if finite.any() else math.inf
    return np.array([s.p50, mean, s.p90, s.p99, s.p99_5, s.p99_9])


def draws(
    latency: Floats, rng: np.random.Generator, *, resamples: int = RESAMPLES, block: int | None = None
) -> Floats:
    """The figures of `resamples` block resamples, `[resamples, len(FIGURES)]`, in ms.

    latency: ms in order of planned time, inf for a failed query. block: consecutive queries that are
    drawn together; None chooses with `block_length`. Raises ValueError for no queries.
    """
    n = len(latency)
    if not n:
        raise ValueError("latency: expected at least one, got none")
    length = min(block or block_length(latency), n)
    order = np.argsort(latency, kind="stable")
    ordered = latency[order]
    rank = np.empty(n, dtype=np.intp)
    rank[order] = np.arange(n)
    runs = np.lib.stride_tricks.sliding_window_view(rank, length)
    answered = int(np.searchsorted(ordered, np.inf))
    # The slack is that of parm_ray.stats: 0.99 x 100 is a little more than 99 in binary.
    wanted = [0 if q is None else max(1, math.ceil(q * n * (1 - 1e-12))) for q in QUANTILES.values()]
    found = np.empty((resamples, len(FIGURES)))
    for i in range(resamples):
        begins = rng.integers(0, n - length + 1, math.ceil(n / length))
        counts = np.bincount(runs[begins].ravel()[:n], minlength=n)
        no_later = np.cumsum(counts)
        found[i] = ordered[np.searchsorted(no_later, wanted)]
        total = no_later[answered - 1] if answered else 0
        # Not `@`: for a whole-number operand it is slow, and it wakes a thread on every core.
        sum_ms = np.einsum("i,i", counts[:answered], ordered[:answered])
        found[i, MEAN] = sum_ms / total if total else math.inf
    return found


def interval(values: Floats, level: float = 0.95) -> Interval:
    """The central `level` of resampled values, in their unit."""
    tail = (1 - level) / 2
    return Interval(percentile(values, max(tail, 1 / len(values))), percentile(values, 1 - tail))


def block_length(latency: Floats) -> int:
    """How many consecutive queries to draw together: at least 25, at most a tenth of the sample.

    The rule of Politis and White (2004, corrected 2009) on two series: above the median or not, and
    in the slowest hundredth or not. The longer block counts: a queue in the bulk, a stall in the tail.
    """
    n = len(latency)
    longest = max(1, n // 10)
    if n < 10 * SHORTEST_BLOCK:
        return min(SHORTEST_BLOCK, longest)
    found = [_politis_white(latency > percentile(latency, q)) for q in (0.5, 0.99)]
    return int(min(max(SHORTEST_BLOCK, *found), longest))


def _politis_white(exceeds: NDArray[np.bool_]) -> int:
    n = len(exceeds)
    x = exceeds - exceeds.mean()
    if not x.any():
        return 1
    spectrum = np.fft.rfft(x, 2 * n)
    most = min(n // 4, 20_000)
    covariance = np.fft.irfft(spectrum * np.conj(spectrum))[: most + 1] / n
    correlation = covariance / covariance[0]
    # Their bandwidth: twice the lag after which five correlations in a row are noise.
    noise = 2 * math.sqrt(math.log10(n) / n)
    quiet = np.abs(correlation[1:]) < noise
    runs = np.convolve(quiet, np.ones(5, dtype=int), mode="valid")
    first = int(np.argmax(runs == 5)) if (runs == 5).any() else most // 2
    lags = np.arange(1, min(2 * max(first, 1), most) + 1)
    t = lags / lags[-1]
    taper = np.where(t <= 0.5, 1.0, 2 * (1 - t))
    weighted = taper * covariance[lags]
    g = 2 * float(np.sum(lags * weighted))
    spread = float(covariance[0] + 2 * np.sum(weighted))
    if spread <= 0:
        return 1
    return math.ceil(max((2 * g**2 / (4 / 3 * spread**2)) * n, 0.0) ** (1 / 3))
