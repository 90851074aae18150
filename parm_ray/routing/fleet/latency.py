"""How long requests take at an engine, as a function of its load: convex, rising, in closed form.

Each model gives the total delay f(y) = y L(y) of load y (requests per second; seconds of waiting and service
that are spent per second), which is what an optimizer adds up, and its slope f'(y): what one more request
per second costs everybody. f is convex wherever L is convex and rising, as (y L)'' = 2 L' + y L''.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scipy.optimize import brentq


class EngineLatency(Protocol):
    """One engine's delay.

    limit: the load in requests per second at which it grows without bound. breaks: the loads between which f
    is linear; None = it bends everywhere.
    """

    @property
    def limit(self) -> float: ...

    @property
    def breaks(self) -> tuple[float, ...] | None: ...

    def total(self, load: float) -> float:
        """Return f(load), for 0 <= load < limit."""

    def slope(self, load: float) -> float:
        """Return f'(load); never falls with the load."""

    def load_at(self, slope: float) -> float:
        """Return the load at which f' reaches `slope`: 0 where it is larger from the start, at most limit."""


@dataclass(frozen=True)
class MM1:
    """One server, exponential service at `limit` requests per second: f = y / (c - y)."""

    limit: float
    breaks = None

    def total(self, load: float) -> float:
        return load / (self.limit - load) if load < self.limit else math.inf

    def slope(self, load: float) -> float:
        return self.limit / (self.limit - load) ** 2 if load < self.limit else math.inf

    def load_at(self, slope: float) -> float:
        # c / (c - y)^2 = slope.
        return max(0.0, self.limit - math.sqrt(self.limit / slope)) if slope > 0 else 0.0


@dataclass(frozen=True)
class MG1:
    """One server, any service time of mean 1 / limit and coefficient of variation sqrt(cv2).

    Pollaczek-Khinchine: f = rho + rho^2 (1 + cv2) / (2 (1 - rho)).
    """

    limit: float
    cv2: float = 1.0
    breaks = None

    def total(self, load: float) -> float:
        rho = load / self.limit
        return rho + rho**2 * (1 + self.cv2) / (2 * (1 - rho)) if rho < 1 else math.inf

    def slope(self, load: float) -> float:
        rho = load / self.limit
        if rho >= 1:
            return math.inf
        return (1 + (1 + self.cv2) / 2 * rho * (2 - rho) / (1 - rho) ** 2) / self.limit

    def load_at(self, slope: float) -> float:
        return _found(self, slope)


@dataclass(frozen=True)
class MGc:
    """`servers` servers that serve `limit` requests per second together.

    Waiting as in M/M/c (Erlang C) times (1 + cv2) / 2, the usual approximation (Lee and Longton, 1959).
    """

    limit: float
    servers: int
    cv2: float = 1.0
    breaks = None

    def total(self, load: float) -> float:
        return self._total(load).real if load < self.limit else math.inf

    def slope(self, load: float) -> float:
        if load >= self.limit:
            return math.inf
        # f is analytic, so a step off the real axis gives the derivative without cancellation.
        step = 1e-100
        return self._total(complex(load, step)).imag / step

    def load_at(self, slope: float) -> float:
        return _found(self, slope)

    def _total(self, load: complex) -> complex:
        service = self.servers / self.limit
        offered = load * service
        blocked: complex = 1.0
        for n in range(1, self.servers + 1):
            blocked = offered * blocked / (n + offered * blocked)
        rho = offered / self.servers
        waits = blocked / (1 - rho * (1 - blocked))
        waiting = waits * service / (self.servers * (1 - rho)) * (1 + self.cv2) / 2
        return load * (service + waiting)


def _found(model: EngineLatency, slope: float) -> float:
    """Return the load at which a model's slope is reached."""
    if model.slope(0.0) >= slope:
        return 0.0
    if math.isinf(slope):
        return model.limit
    # The slope has no bound at the limit, its inverse is 0 there, and nearly straight before.
    return float(
        brentq(
            lambda load: 1 / model.slope(load) - 1 / slope,
            0.0,
            model.limit,
            xtol=1e-15 * model.limit,
            rtol=1e-14,
        )
    )


@dataclass(frozen=True)
class Profile:
    """Measured points: at `loads` requests per second, ascending from 0, a request took `seconds`.

    f is linear between them. Where the measured totals are not convex their slopes are averaged until they
    rise (pool adjacent violators, weighted by width). Beyond the last load there is nothing: limit is there.
    Raises ValueError for loads that do not ascend from 0, or times that are not positive.
    """

    loads: tuple[float, ...]
    seconds: tuple[float, ...]
    _slopes: tuple[float, ...] = field(init=False, repr=False)
    _totals: tuple[float, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.loads) < 2 or len(self.loads) != len(self.seconds):
            raise ValueError(f"loads: expected two or more, as many as seconds, got {len(self.loads)}")
        if self.loads[0] != 0 or any(b <= a for a, b in zip(self.loads, self.loads[1:], strict=False)):
            raise ValueError(f"loads: expected ascending from 0, got {list(self.loads)}")
        if not all(math.isfinite(s) and s > 0 for s in self.seconds):
            raise ValueError(f"seconds: expected positive numbers, got {list(self.seconds)}")
        totals = [load * seconds for load, seconds in zip(self.loads, self.seconds, strict=True)]
        widths = [b - a for a, b in zip(self.loads, self.loads[1:], strict=False)]
        slopes = [(b - a) / w for a, b, w in zip(totals, totals[1:], widths, strict=False)]
        object.__setattr__(self, "_slopes", rising(slopes, widths))
        sums = [0.0]
        for slope, width in zip(self._slopes, widths, strict=True):
            sums.append(sums[-1] + slope * width)
        object.__setattr__(self, "_totals", tuple(sums))

    @property
    def limit(self) -> float:
        return self.loads[-1]

    @property
    def breaks(self) -> tuple[float, ...]:
        """The loads between which f is linear."""
        return self.loads

    def total(self, load: float) -> float:
        if load > self.limit:
            return math.inf
        i = min(bisect_right(self.loads, load), len(self._slopes)) - 1
        return self._totals[i] + self._slopes[i] * (load - self.loads[i])

    def slope(self, load: float) -> float:
        if load > self.limit:
            return math.inf
        return self._slopes[min(bisect_right(self.loads, load), len(self._slopes)) - 1]

    def load_at(self, slope: float) -> float:
        for load, after in zip(self.loads, self._slopes, strict=False):
            if after >= slope:
                return load
        return self.limit


@dataclass(frozen=True)
class Free:
    """An engine that takes no time up to its limit: for plans that look at the network alone."""

    limit: float

    @property
    def breaks(self) -> tuple[float, ...]:
        """The loads between which f is linear."""
        return (0.0, self.limit)

    def total(self, load: float) -> float:
        return 0.0 if load <= self.limit else math.inf

    def slope(self, load: float) -> float:
        return 0.0 if load <= self.limit else math.inf

    def load_at(self, slope: float) -> float:
        return 0.0 if slope <= 0 else self.limit


def rising(values: Sequence[float], weights: Sequence[float]) -> tuple[float, ...]:
    """Return the rising sequence nearest to `values` in weighted squares (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (v, w, n), (u, x, m) = blocks.pop(), blocks.pop()
            blocks.append(((v * w + u * x) / (w + x), w + x, n + m))
    return tuple(value for value, _, n in blocks for _ in range(n))
