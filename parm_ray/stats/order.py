"""What a sample says of the least, or the k-th, of several independent times: unbiased, without a model."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

Sample = NDArray[np.float64]


def ascending(sample: ArrayLike, least: int = 1) -> Sample:
    """Return the values in ascending order. Raises ValueError for fewer than `least`, or bad values."""
    ordered = np.sort(np.asarray(sample, dtype=np.float64).ravel())
    if len(ordered) < least:
        raise ValueError(f"sample: expected at least {least} values, got {len(ordered)}")
    if not (np.all(np.isfinite(ordered)) and ordered[0] >= 0):
        raise ValueError("sample: expected finite numbers >= 0")
    return ordered


def order_mean(sample: ArrayLike, k: int, r: int, moment: int = 1) -> float:
    """Return the unbiased estimate of E[X_{k:r}^moment] from N >= r independent values.

    The mean over all subsets of r values of their k-th smallest, which is an L-statistic (Hoeffding, 1948):
    sum over i of x_(i)^moment C(i-1, k-1) C(N-i, r-k) / C(N, r). Raises ValueError unless
    1 <= k <= r <= N: a sample says nothing of more copies than it has values.
    """
    x = ascending(sample)
    if not 1 <= r <= len(x):
        raise ValueError(f"r: expected 1..{len(x)} (the sample's size), got {r}")
    if not 1 <= k <= r:
        raise ValueError(f"k: expected 1..r ({r}), got {k}")
    return float(x**moment @ _weights(len(x), k, r))


def cost_of_copies(sample: ArrayLike, r: int) -> float:
    """Return the estimate of g(r) = r E[X_{1:r}]: server seconds of r copies, all stopped by the first."""
    return r * order_mean(sample, 1, r)


def gini(sample: ArrayLike) -> float:
    """Return Gini's coefficient, unbiased up to the ratio: mean |X - X'| / (2 E[X]) over pairs.

    E[X_{1:2}] = E[X] (1 - G), so two copies with free cancelling cost less than one call iff G > 1/2; an
    exponential time has 1/2. Raises ValueError for fewer than two values, or none above 0.
    """
    x = ascending(sample, least=2)
    if not x[-1] > 0:
        raise ValueError("sample: expected a value above 0, got none")
    return 1 - order_mean(x, 1, 2) / float(x.mean())


@dataclass(frozen=True, slots=True)
class TimeOnTest:
    """The total time on test statistic of a sample.

    v: 1/2 in the mean for exponential times, larger where the hazard rate rises (IFR), smaller where it
    falls (DFR); 1 - Gini. z: in standard deviations from 1/2, near normal for exponential times: above 1.96
    the sample is on the side where copies cost more, below -1.96 where they cost less. It is about the whole,
    so that heavy tails behind a flat start count as rising.
    """

    v: float
    z: float


def time_on_test(sample: ArrayLike) -> TimeOnTest:
    """Return the cumulative total time on test statistic (Barlow and Proschan, 1969) of N >= 2 values.

    D_i = (N-i+1) (x_(i) - x_(i-1)), U_i the share of the first i in their sum, V = mean(U_1 .. U_{N-1}). For
    exponential times V has mean 1/2 and variance 1 / (12 (N-1)).
    """
    x = ascending(sample, least=2)
    if not x[-1] > 0:
        raise ValueError("sample: expected a value above 0, got none")
    spacings = np.arange(len(x), 0, -1) * np.diff(x, prepend=0.0)
    shares = np.cumsum(spacings)
    v = float(np.mean(shares[:-1] / shares[-1]))
    return TimeOnTest(v, (v - 0.5) * math.sqrt(12 * (len(x) - 1)))


def _weights(n: int, k: int, r: int) -> Sample:
    """C(i-1, k-1) C(n-i, r-k) / C(n, r) for i = 1..n, by logarithms: the binomials themselves overflow."""
    i = np.arange(k, n - r + k + 1)
    logs = _log_binomial(i - 1, k - 1) + _log_binomial(n - i, r - k) - _log_binomial(np.array(n), r)
    weights = np.zeros(n)
    weights[i - 1] = np.exp(logs)
    # They sum to 1; logarithms of large numbers lose a few digits of it.
    return weights / weights.sum()


def _log_binomial(n: NDArray[np.int_], k: int) -> Sample:
    logs: Sample = gammaln(n + 1) - math.lgamma(k + 1) - gammaln(n - k + 1)
    return logs
