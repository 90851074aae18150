"""Whether copies of a job are as independent as formulas take them to be: told from paired service times.

A pair is one job served twice, by two servers (a share of the requests is duplicated for the measurement, and
neither copy is cancelled). Where jobs differ in size both copies are long together: a sample of single times
cannot tell a long job from a slow server, and promises savings that copies do not bring.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.stats.copies import SizeSlowdown
from parm_ray.stats.families import Empirical
from parm_ray.stats.order import cost_of_copies
from parm_ray.stats.summary import Interval, bootstrap_interval
from parm_ray.stats.trust import LEAST, RESAMPLES

Pairs = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PairCheck:
    """What two copies cost in pairs, and what the same times would if they were independent.

    cost_ratio, interval: 2 E[min(X1, X2)] / E[X] of the pairs, and its 95 % bootstrap interval; above 1 two
    copies with free cancelling cost more than one call. independent_ratio: the same from all times, as if
    unpaired, 2 (1 - Gini). p: how often pairs put together at random are as far from the latter (two-sided).
    """

    cost_ratio: float
    interval: Interval
    independent_ratio: float
    p: float

    @property
    def independent(self) -> bool:
        """Whether the pairs do not contradict independent copies, at 5 %."""
        return self.p >= 0.05


@dataclass(frozen=True, slots=True)
class SizeShare:
    """How much of the spread of service times is the jobs', X = size x slowdown with the size shared (S&X).

    log_share: share of Var(log X) that the size has, Cov(log X1, log X2) / Var(log X): 0 independent copies,
    1 nothing but size. cv2_size, cv2_slowdown: squared coefficients of variation, from E[X1 X2] =
    E[B^2] E[S]^2 and E[X^2] = E[B^2] E[S^2]; estimates, which may come out below 0. gini_slowdown:
    1 - E[min] / E[X]: two copies cost less than one call iff it exceeds 1/2.
    """

    log_share: float
    cv2_size: float
    cv2_slowdown: float
    gini_slowdown: float


def check_pairs(pairs: ArrayLike, rng: np.random.Generator, *, resamples: int = RESAMPLES) -> PairCheck:
    """Compare pairs `[n, 2]`, seconds, with independent copies (permutation test of the mean minimum).

    Raises ValueError for another shape, fewer than `LEAST` pairs, or times that are not positive.
    """
    x = _paired(pairs)
    mean = float(x.mean())
    ratio = 2 * float(x.min(axis=1).mean()) / mean
    shuffled = np.array([np.minimum(x[:, 0], rng.permutation(x[:, 1])).mean() for _ in range(resamples)])
    higher = np.count_nonzero(2 * shuffled / mean >= ratio)
    lower = np.count_nonzero(2 * shuffled / mean <= ratio)
    p = min(1.0, 2 * (min(higher, lower) + 1) / (resamples + 1))
    picks = bootstrap_interval(
        np.arange(len(x)),
        lambda rows: 2 * float(x[rows.astype(np.intp)].min(axis=1).mean() / x[rows.astype(np.intp)].mean()),
        rng,
        resamples=resamples,
    )
    return PairCheck(ratio, picks, cost_of_copies(x.ravel(), 2) / mean, p)


def require_independent(pairs: ArrayLike, rng: np.random.Generator) -> None:
    """Raise ValueError, which says what copies really cost, if the pairs contradict independent copies."""
    found = check_pairs(pairs, rng)
    if not found.independent:
        raise ValueError(
            f"pairs: two copies cost {found.cost_ratio:.2f} times one call, independent ones would "
            f"{found.independent_ratio:.2f} times (p = {found.p:.3f}): single service times mislead here"
        )


def size_share(pairs: ArrayLike) -> SizeShare:
    """Divide the spread of pairs `[n, 2]`, seconds, into the jobs' and the servers' part.

    Raises ValueError as `check_pairs` does, and if all times are equal.
    """
    x = _paired(pairs)
    if np.ptp(x) == 0:
        raise ValueError("pairs: expected times that differ, got all equal")
    logs = np.log(x)
    logs -= logs.mean()
    product, square, mean = float(np.mean(x[:, 0] * x[:, 1])), float(np.mean(x**2)), float(x.mean())
    return SizeShare(
        log_share=float(np.mean(logs[:, 0] * logs[:, 1]) / np.mean(logs**2)),
        cv2_size=product / mean**2 - 1,
        cv2_slowdown=square / product - 1,
        gini_slowdown=1 - float(x.min(axis=1).mean()) / mean,
    )


def by_size(times: ArrayLike, sizes: ArrayLike) -> SizeSlowdown:
    """Return the S&X law of `times` `[n]`, seconds, where a predictor says how large each job is.

    sizes: `[n]`, in any unit (tokens, pixels), > 0; time / size, scaled to a median of 1, is taken to be the
    server's slowdown, independent of the size. Raises ValueError for fewer than `LEAST` of them, or values
    that are not > 0.
    """
    x, b = (np.asarray(values, dtype=np.float64).ravel() for values in (times, sizes))
    if len(x) != len(b) or len(x) < LEAST:
        raise ValueError(f"sizes: expected as many as times and at least {LEAST}, got {len(x)} and {len(b)}")
    for name, values in (("times", x), ("sizes", b)):
        if not np.all(np.isfinite(values) & (values > 0)):
            raise ValueError(f"{name}: expected finite numbers > 0")
    ratios = x / b
    unit = float(np.median(ratios))
    return SizeSlowdown(Empirical(b * unit), Empirical(ratios / unit))


def _paired(pairs: ArrayLike) -> Pairs:
    x = np.asarray(pairs, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] != 2:
        raise ValueError(f"pairs: expected shape [n, 2], got {list(x.shape)}")
    if len(x) < LEAST:
        raise ValueError(f"pairs: expected at least {LEAST}, got {len(x)}: measure {LEAST - len(x)} more")
    if not np.all(np.isfinite(x) & (x > 0)):
        raise ValueError("pairs: expected finite numbers > 0")
    return x
