"""Families made of exponential times."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import comb, digamma, zeta

from parm_ray.stats.families.base import Family, LogTail, Times
from parm_ray.stats.families.checks import above, at_least, rank, share


@dataclass(frozen=True)
class ShiftedExponential(Family):
    """`shift` seconds, then an exponential time of `rate` per second: D + Exp(mu)."""

    shift: float
    rate: float

    def __post_init__(self) -> None:
        at_least("shift", self.shift, 0)
        above("rate", self.rate, 0)

    @property
    def log_tail(self) -> LogTail:
        return "concave" if self.shift else "both"

    @property
    def mean(self) -> float:
        return self.shift + 1 / self.rate

    @property
    def second_moment(self) -> float:
        return self.mean**2 + 1 / self.rate**2

    @property
    def knots(self) -> tuple[float, ...]:
        return (self.shift,)

    def survival(self, t: ArrayLike) -> Times:
        over = np.maximum(np.asarray(t, dtype=np.float64) - self.shift, 0)
        tail: Times = np.exp(-self.rate * over)
        return tail

    def sample(self, rng: np.random.Generator, n: int | tuple[int, ...]) -> Times:
        return self.shift + rng.exponential(1 / self.rate, n)

    def order_mean(self, k: int, n: int) -> float:
        """D + (H(n) - H(n-k)) / mu: the spacings of exponentials are exponentials (Renyi, 1953)."""
        rank(k, n)
        return self.shift + float(digamma(n + 1) - digamma(n - k + 1)) / self.rate

    def order_second_moment(self, k: int, n: int) -> float:
        """Squared mean plus the sum over i = n-k+1..n of 1 / (i mu)^2."""
        rank(k, n)
        variance = float(zeta(2, n - k + 1) - zeta(2, n + 1)) / self.rate**2
        return self.order_mean(k, n) ** 2 + variance


@dataclass(frozen=True, repr=False)
class Exponential(ShiftedExponential):
    """An exponential time of `rate` per second: Exp(mu)."""

    shift: float = 0.0
    rate: float = 1.0

    def __init__(self, rate: float) -> None:
        object.__setattr__(self, "shift", 0.0)
        object.__setattr__(self, "rate", rate)
        self.__post_init__()

    def __repr__(self) -> str:
        return f"Exponential(rate={self.rate})"


@dataclass(frozen=True)
class Hyperexponential(Family):
    """Exponential at rates[0] per second with probability `share`, else at rates[1]."""

    share: float
    rates: tuple[float, float]

    def __post_init__(self) -> None:
        share("share", self.share)
        if len(self.rates) != 2:
            raise ValueError(f"rates: expected two, got {len(self.rates)}")
        for i, rate in enumerate(self.rates):
            above(f"rates[{i}]", rate, 0)

    @property
    def log_tail(self) -> LogTail:
        one = self.share in (0, 1) or self.rates[0] == self.rates[1]
        return "both" if one else "convex"

    @property
    def mean(self) -> float:
        return self.min_mean(1)

    @property
    def second_moment(self) -> float:
        return self.min_second_moment(1)

    @property
    def knots(self) -> tuple[float, ...]:
        # The two times may be orders of magnitude apart: an integral has to look at either.
        return tuple(sorted({1 / rate for rate in self.rates}))

    def survival(self, t: ArrayLike) -> Times:
        time = np.maximum(np.asarray(t, dtype=np.float64), 0)
        first, second = self.rates
        tail: Times = self.share * np.exp(-first * time) + (1 - self.share) * np.exp(-second * time)
        return tail

    def sample(self, rng: np.random.Generator, n: int | tuple[int, ...]) -> Times:
        rates = np.where(rng.random(n) < self.share, *self.rates)
        return rng.exponential(1.0, n) / rates

    def min_mean(self, r: int) -> float:
        """S^r by the binomial theorem: a mixture of exponentials, too."""
        return self._min_moment(r, 1)

    def min_second_moment(self, r: int) -> float:
        return self._min_moment(r, 2)

    def _min_moment(self, r: int, moment: int) -> float:
        rank(1, r)
        i = np.arange(r + 1)
        weights = comb(r, i) * self.share**i * (1 - self.share) ** (r - i)
        rates = i * self.rates[0] + (r - i) * self.rates[1]
        return float(math.factorial(moment) * np.sum(weights / rates**moment))
