"""What every family of service times can say of itself, by integrating its tail where no formula is known.

X is a service time in seconds and S(t) = P(X > t) its survival function. X_{k:n} is the k-th smallest of n
independent copies. As X >= 0, E[X] is the integral of S and E[X^2] that of 2 t S(t) over t >= 0.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import IntegrationWarning, quad
from scipy.special import betainc

from parm_ray.stats.families.checks import rank

Times = NDArray[np.float64]
Tail = Callable[[Times], Times]

# log S concave: the hazard rate rises (IFR), the longer a call has run the sooner it ends. Convex: it
# falls (DFR). "both" is the exponential alone.
LogTail = Literal["concave", "convex", "both", "neither"]
LOG_TAILS: tuple[str, ...] = get_args(LogTail)


class Family(ABC):
    """A distribution of service times, >= 0, in seconds."""

    # Whether S is a step function, so that integrals of it are finite sums.
    steps = False

    @property
    @abstractmethod
    def log_tail(self) -> LogTail:
        """Whether log S is concave, convex, both or neither."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """E[X] in seconds; inf where there is none."""

    @property
    @abstractmethod
    def second_moment(self) -> float:
        """E[X^2] in seconds squared; inf where there is none."""

    @property
    @abstractmethod
    def knots(self) -> tuple[float, ...]:
        """Times at which S jumps or bends, ascending; beyond the last, S is smooth or 0."""

    @abstractmethod
    def survival(self, t: ArrayLike) -> Times:
        """Return S at each of `t` (seconds, any shape); 1 for t < 0."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, n: int | tuple[int, ...]) -> Times:
        """Return independent draws, seconds, of shape `n`."""

    @property
    def cv2(self) -> float:
        """Squared coefficient of variation, Var(X) / E[X]^2; inf where the second moment is."""
        if math.isinf(self.second_moment):
            return math.inf
        return max(0.0, self.second_moment / self.mean**2 - 1) if self.mean else 0.0

    def min_mean(self, r: int) -> float:
        """Return E[X_{1:r}], the mean of the least of r."""
        return self.order_mean(1, r)

    def min_second_moment(self, r: int) -> float:
        """Return E[X_{1:r}^2]."""
        return self.order_second_moment(1, r)

    def order_mean(self, k: int, n: int) -> float:
        """Return E[X_{k:n}]. Raises ValueError unless 1 <= k <= n."""
        rank(k, n)
        return self._order_moment(k, n, 1)

    def order_second_moment(self, k: int, n: int) -> float:
        """Return E[X_{k:n}^2]. Raises ValueError unless 1 <= k <= n."""
        rank(k, n)
        return self._order_moment(k, n, 2)

    def order_survival(self, k: int, n: int, t: ArrayLike) -> Times:
        """Return P(X_{k:n} > t) at each of `t`: fewer than k of n have ended."""
        # sum_{j<k} C(n,j) F^j S^(n-j) as an incomplete beta function: no cancellation, no large binomials.
        tail: Times = betainc(n - k + 1, k, self.survival(t))
        return tail

    def integral(
        self,
        tail: Tail,
        *,
        moment: int = 1,
        start: float = 0.0,
        stop: float = math.inf,
        bends: Iterable[float] = (),
    ) -> float:
        """Return the integral of moment * t^(moment-1) * tail(t) over start <= t < stop, in seconds.

        tail: maps times `[m]` to values `[m]`; built from S, it jumps and bends at the knots and at `bends`
        alone, and is 0 for large t. A sum where S is a step function (tail must be one, too).
        """
        edges = np.array(sorted({start, *(t for t in (*self.knots, *bends) if start < t < stop)}))
        if math.isfinite(stop):
            edges = np.append(edges, stop)
        if self.steps:
            values = tail((edges[:-1] + edges[1:]) / 2)
            return float(values @ np.diff(edges**moment))
        scale = self.mean if math.isfinite(self.mean) else max(*self.knots, 1.0)
        return _smooth(tail, moment, edges if math.isfinite(stop) else np.append(edges, math.inf), scale)

    def _order_moment(self, k: int, n: int, moment: int) -> float:
        return self.integral(lambda t: self.order_survival(k, n, t), moment=moment)


def _smooth(tail: Tail, moment: int, edges: Times, scale: float) -> float:
    """Integrate between the edges, in units of `scale`."""

    def weighted(u: float) -> float:
        t = u * scale
        return float(tail(np.array([t]))[0]) * (moment * t ** (moment - 1)) * scale

    total = 0.0
    with warnings.catch_warnings():
        # An integral that does not converge must not pass for a number.
        warnings.simplefilter("error", IntegrationWarning)
        for low, high in pairwise(edges):
            part, _ = quad(weighted, low / scale, high / scale, epsabs=1e-12, epsrel=1e-9, limit=400)
            total += part
    return total
