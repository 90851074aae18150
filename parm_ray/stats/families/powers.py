"""Families whose tails are powers, or exponentials of powers and logarithms."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincc, gammaln, ndtr

from parm_ray.stats.families.base import Family, LogTail, Times
from parm_ray.stats.families.checks import above, rank


@dataclass(frozen=True)
class Pareto(Family):
    """P(X > t) = (least / t)^shape for t >= least seconds. The mean needs shape > 1, the square > 2."""

    least: float
    shape: float

    def __post_init__(self) -> None:
        above("least", self.least, 0)
        above("shape", self.shape, 0)

    @property
    def log_tail(self) -> LogTail:
        # Flat up to `least`, convex beyond.
        return "neither"

    @property
    def mean(self) -> float:
        return self.min_mean(1)

    @property
    def second_moment(self) -> float:
        return self.min_second_moment(1)

    @property
    def knots(self) -> tuple[float, ...]:
        return (self.least,)

    def survival(self, t: ArrayLike) -> Times:
        time = np.maximum(np.asarray(t, dtype=np.float64), self.least)
        tail: Times = (self.least / time) ** self.shape
        return tail

    def sample(self, rng: np.random.Generator, n: int | tuple[int, ...]) -> Times:
        return self.least * (1 + rng.pareto(self.shape, n))

    def _order_moment(self, k: int, n: int, moment: int) -> float:
        """least^m G(n+1) G(n-k+1-m/a) / (G(n-k+1) G(n+1-m/a)), G the gamma function."""
        left = n - k + 1 - moment / self.shape
        if left <= 0:
            return math.inf
        logs = gammaln(n + 1) + gammaln(left) - gammaln(n - k + 1) - gammaln(left + k)
        return self.least**moment * math.exp(logs)


@dataclass(frozen=True)
class Weibull(Family):
    """P(X > t) = exp(-(t / scale)^shape), scale in seconds."""

    shape: float
    scale: float

    def __post_init__(self) -> None:
        above("shape", self.shape, 0)
        above("scale", self.scale, 0)

    @property
    def log_tail(self) -> LogTail:
        return "both" if self.shape == 1 else "concave" if self.shape > 1 else "convex"

    @property
    def mean(self) -> float:
        return self.min_mean(1)

    @property
    def second_moment(self) -> float:
        return self.min_second_moment(1)

    @property
    def knots(self) -> tuple[float, ...]:
        return (self.scale,)

    def survival(self, t: ArrayLike) -> Times:
        time = np.maximum(np.asarray(t, dtype=np.float64), 0)
        tail: Times = np.exp(-((time / self.scale) ** self.shape))
        return tail

    def sample(self, rng: np.random.Generator, n: int | tuple[int, ...]) -> Times:
        return self.scale * rng.weibull(self.shape, n)

    def min_mean(self, r: int) -> float:
        """The least of r is Weibull again, with scale s r^(-1/c)."""
        return self._min_moment(r, 1)

    def min_second_moment(self, r: int) -> float:
        return self._min_moment(r, 2)

    def _min_moment(self, r: int, moment: int) -> float:
        rank(1, r)
        return (self.scale * r ** (-1 / self.shape)) ** moment * math.gamma(1 + moment / self.shape)


@dataclass(frozen=True)
class Gamma(Family):
    """A gamma time; with a whole `shape` the sum of so many exponentials of mean `scale` seconds."""

    shape: float
    scale: float

    def __post_init__(self) -> None:
        above("shape", self.shape, 0)
        above("scale", self.scale, 0)

    @property
    def log_tail(self) -> LogTail:
        return "both" if self.shape == 1 else "concave" if self.shape > 1 else "convex"

    @property
    def mean(self) -> float:
        return self.shape * self.scale

    @property
    def second_moment(self) -> float:
        return self.shape * (self.shape + 1) * self.scale**2

    @property
    def knots(self) -> tuple[float, ...]:
        return (self.mean,)

    def survival(self, t: ArrayLike) -> Times:
        tail: Times = gammaincc(self.shape, np.maximum(np.asarray(t, dtype=np.float64), 0) / self.scale)
        return tail

    def sample(self, rng: np.random.Generator, n: int | tuple[int, ...]) -> Times:
        return rng.gamma(self.shape, self.scale, n)


@dataclass(frozen=True)
class LogNormal(Family):
    """exp of a normal variable of mean `mu` and deviation `sigma`; exp(mu) is the median in seconds."""

    mu: float
    sigma: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.mu):
            raise ValueError(f"mu: expected a finite number, got {self.mu!r}")
        above("sigma", self.sigma, 0)

    @property
    def log_tail(self) -> LogTail:
        # The hazard rate rises from 0, then falls to 0.
        return "neither"

    @property
    def mean(self) -> float:
        return math.exp(self.mu + self.sigma**2 / 2)

    @property
    def second_moment(self) -> float:
        return math.exp(2 * self.mu + 2 * self.sigma**2)

    @property
    def knots(self) -> tuple[float, ...]:
        return (math.exp(self.mu), math.exp(self.mu + 3 * self.sigma))

    def survival(self, t: ArrayLike) -> Times:
        time = np.maximum(np.asarray(t, dtype=np.float64), 0)
        with np.errstate(divide="ignore"):
            tail: Times = ndtr((self.mu - np.log(time)) / self.sigma)
        return tail

    def sample(self, rng: np.random.Generator, n: int | tuple[int, ...]) -> Times:
        return rng.lognormal(self.mu, self.sigma, n)


@dataclass(frozen=True)
class Uniform(Family):
    """Any time from `low` to `high` seconds, 0 <= low < high, equally likely."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.high) and 0 <= self.low < self.high):
            raise ValueError(f"high: expected 0 <= low < high, got low={self.low!r}, high={self.high!r}")

    @property
    def log_tail(self) -> LogTail:
        return "concave"

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    @property
    def second_moment(self) -> float:
        return (self.low**2 + self.low * self.high + self.high**2) / 3

    @property
    def knots(self) -> tuple[float, ...]:
        return (self.low, self.high)

    def survival(self, t: ArrayLike) -> Times:
        part = (self.high - np.asarray(t, dtype=np.float64)) / (self.high - self.low)
        tail: Times = np.clip(part, 0, 1)
        return tail

    def sample(self, rng: np.random.Generator, n: int | tuple[int, ...]) -> Times:
        return rng.uniform(self.low, self.high, n)

    def _order_moment(self, k: int, n: int, moment: int) -> float:
        """The k-th of n standard uniform numbers is Beta(k, n-k+1)."""
        width, mean = self.high - self.low, k / (n + 1)
        if moment == 1:
            return self.low + width * mean
        square = k * (k + 1) / ((n + 1) * (n + 2))
        return self.low**2 + 2 * self.low * width * mean + width**2 * square
