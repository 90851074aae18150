"""Distributions of service times, each bound to a generator, with its moments in closed form.

Every kind but the deterministic and the empirical one is set by its mean `mean_s`, so that kinds of
different tails can be compared at the same utilisation. One draw at a time gives the same numbers as
`draw_many` from a generator in the same state. Arguments out of range raise ValueError with the
field's name. Times in seconds, second moments in seconds squared.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.workload.ranges import number, numbers, whole

Times = NDArray[np.float64]
Rng = np.random.Generator


class Distribution(ABC):
    """What all kinds have: a generator, two moments, draws."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng

    @property
    @abstractmethod
    def mean_s(self) -> float:
        """Expected seconds per call."""

    @property
    @abstractmethod
    def second_moment_s2(self) -> float:
        """Expected square, seconds squared; inf where there is none."""

    def draw_many(self, n: int) -> Times:
        """Seconds that the next n >= 0 calls take, `[n]`."""
        return self._draw_many(whole("n", n))

    def draw(self) -> float:
        """Seconds that the next call takes."""
        return float(self._draw_many(1)[0])

    @abstractmethod
    def _draw_many(self, n: int) -> Times: ...


class Deterministic(Distribution):
    """Every call takes `service_s` seconds, >= 0."""

    def __init__(self, service_s: float, rng: Rng) -> None:
        super().__init__(rng)
        self.service_s = number("service_s", service_s, at_least=0, unit="seconds")

    @property
    def mean_s(self) -> float:
        return self.service_s

    @property
    def second_moment_s2(self) -> float:
        return self.service_s**2

    def _draw_many(self, n: int) -> Times:
        return np.full(n, self.service_s)


class ShiftedExponential(Distribution):
    """At least `shift_s` seconds, then an exponential time; `mean_s` >= `shift_s` is the mean of the sum."""

    def __init__(self, shift_s: float, mean_s: float, rng: Rng) -> None:
        super().__init__(rng)
        self.shift_s = number("shift_s", shift_s, at_least=0, unit="seconds")
        self._mean_s = number("mean_s", mean_s, at_least=self.shift_s, unit="seconds")

    @property
    def mean_s(self) -> float:
        return self._mean_s

    @property
    def second_moment_s2(self) -> float:
        return self._mean_s**2 + (self._mean_s - self.shift_s) ** 2

    def _draw_many(self, n: int) -> Times:
        return self.shift_s + self._rng.exponential(self._mean_s - self.shift_s, n)


class Exponential(ShiftedExponential):
    """An exponential time of mean `mean_s` >= 0: the service time of M/M queues."""

    def __init__(self, mean_s: float, rng: Rng) -> None:
        super().__init__(0.0, mean_s, rng)


class Gamma(Distribution):
    """A gamma time of mean `mean_s` >= 0; with a whole `shape` (>= 0.05), a sum of so many exponentials."""

    def __init__(self, mean_s: float, shape: float, rng: Rng) -> None:
        super().__init__(rng)
        self._mean_s = number("mean_s", mean_s, at_least=0, unit="seconds")
        self.shape = number("shape", shape, at_least=0.05)

    @property
    def mean_s(self) -> float:
        return self._mean_s

    @property
    def second_moment_s2(self) -> float:
        return self._mean_s**2 * (1 + 1 / self.shape)

    def _draw_many(self, n: int) -> Times:
        return self._rng.gamma(self.shape, self._mean_s / self.shape, n)


class Weibull(Distribution):
    """A Weibull time of mean `mean_s` >= 0; a `shape` (>= 0.05) below 1 has a tail above the exponential."""

    def __init__(self, mean_s: float, shape: float, rng: Rng) -> None:
        super().__init__(rng)
        self._mean_s = number("mean_s", mean_s, at_least=0, unit="seconds")
        self.shape = number("shape", shape, at_least=0.05)
        self._scale_s = self._mean_s / math.gamma(1 + 1 / self.shape)

    @property
    def mean_s(self) -> float:
        return self._mean_s

    @property
    def second_moment_s2(self) -> float:
        return self._scale_s**2 * math.gamma(1 + 2 / self.shape)

    def _draw_many(self, n: int) -> Times:
        return self._scale_s * self._rng.weibull(self.shape, n)


class LogNormal(Distribution):
    """A log-normal time of mean `mean_s` > 0; `sigma`, 0..10, is the standard deviation of its logarithm."""

    def __init__(self, mean_s: float, sigma: float, rng: Rng) -> None:
        super().__init__(rng)
        self._mean_s = number("mean_s", mean_s, above=0, unit="seconds")
        self.sigma = number("sigma", sigma, at_least=0, at_most=10)

    @property
    def mean_s(self) -> float:
        return self._mean_s

    @property
    def second_moment_s2(self) -> float:
        return self._mean_s**2 * math.exp(self.sigma**2)

    def _draw_many(self, n: int) -> Times:
        return self._rng.lognormal(math.log(self._mean_s) - self.sigma**2 / 2, self.sigma, n)


class Pareto(Distribution):
    """P(time > t) = (minimum / t)^shape; mean `mean_s` >= 0 exists for a `shape` > 1.

    The minimum is mean_s x (shape - 1) / shape. For a shape up to 2 the second moment is infinite and
    the mean of a sample comes close to `mean_s` very slowly.
    """

    def __init__(self, mean_s: float, shape: float, rng: Rng) -> None:
        super().__init__(rng)
        self._mean_s = number("mean_s", mean_s, at_least=0, unit="seconds")
        self.shape = number("shape", shape, above=1)
        self.minimum_s = self._mean_s * (self.shape - 1) / self.shape

    @property
    def mean_s(self) -> float:
        return self._mean_s

    @property
    def second_moment_s2(self) -> float:
        if self._mean_s == 0:
            return 0.0
        return self.minimum_s**2 * self.shape / (self.shape - 2) if self.shape > 2 else math.inf

    def _draw_many(self, n: int) -> Times:
        return self.minimum_s * (1 + self._rng.pareto(self.shape, n))


class Hyperexponential(Distribution):
    """An exponential time whose mean is `means_s[i]` (>= 0) with probability `shares[i]` (sum 1)."""

    def __init__(self, shares: ArrayLike, means_s: ArrayLike, rng: Rng) -> None:
        super().__init__(rng)
        self.shares = numbers("shares", shares)
        self.means_s = numbers("means_s", means_s)
        if len(self.shares) != len(self.means_s):
            raise ValueError(
                f"means_s: expected one for each of {len(self.shares)} shares, got {len(self.means_s)}"
            )
        if abs(self.shares.sum() - 1) > 1e-9:
            raise ValueError(f"shares: expected a sum of 1, got {self.shares.sum():g}")
        self._up_to = np.cumsum(self.shares)[:-1]

    @property
    def mean_s(self) -> float:
        return float(self.shares @ self.means_s)

    @property
    def second_moment_s2(self) -> float:
        return float(2 * self.shares @ self.means_s**2)

    def _draw_many(self, n: int) -> Times:
        # Two uniform numbers per call, side by side, so that single draws give the same sequence.
        which, how_long = self._rng.random((n, 2)).T
        means = self.means_s[np.searchsorted(self._up_to, which, side="right")]
        return -np.log1p(-how_long) * means


class Empirical(Distribution):
    """A time from a measured sample `sample_s` `[n]`, each of its values with the same probability."""

    def __init__(self, sample_s: ArrayLike, rng: Rng) -> None:
        super().__init__(rng)
        self.sample_s = numbers("sample_s", sample_s)

    @property
    def mean_s(self) -> float:
        return float(self.sample_s.mean())

    @property
    def second_moment_s2(self) -> float:
        return float((self.sample_s**2).mean())

    def _draw_many(self, n: int) -> Times:
        picked: Times = self.sample_s[(self._rng.random(n) * len(self.sample_s)).astype(np.intp)]
        return picked
