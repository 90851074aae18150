"""What the optimizer is asked: demands, engines, the network between them, and what may go where."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parm_ray.routing.fleet.latency import EngineLatency


@dataclass(frozen=True)
class Demand:
    """Requests of one kind at one front end.

    rate: per second. needs: capabilities that an engine must have (a model, a kind of hardware, a place where
    data may go); shed_price_s: what dropping a request counts as, in seconds of latency: above anything that
    routing one can cost, and higher for what is more important.
    """

    front_end: str
    rate: float
    name: str = "default"
    needs: frozenset[str] = frozenset()
    shed_price_s: float = 10.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate) and self.rate >= 0):
            raise ValueError(f"{self}: rate: expected requests per second >= 0, got {self.rate}")
        if not self.shed_price_s > 0:
            raise ValueError(f"{self}: shed_price_s: expected > 0 seconds, got {self.shed_price_s}")

    def __str__(self) -> str:
        return f"{self.front_end}/{self.name}"


@dataclass(frozen=True)
class Engine:
    """A pool that serves.

    latency: of the whole pool. has: its capabilities. health: the share h of its replicas that work, 0..1:
    as much load a replica takes as long as before, so that f_h(y) = h f(y / h). at_most: requests per second
    that it may get for another reason, a penalty say.
    """

    name: str
    latency: EngineLatency
    has: frozenset[str] = frozenset()
    health: float = 1.0
    at_most: float = math.inf

    def __post_init__(self) -> None:
        if not 0 <= self.health <= 1:
            raise ValueError(f"{self.name}: health: expected 0..1, got {self.health}")
        if not self.at_most >= 0:
            raise ValueError(f"{self.name}: at_most: expected requests per second >= 0, got {self.at_most}")

    @property
    def limit(self) -> float:
        """The load at which what works of it is overwhelmed, requests per second."""
        return self.latency.limit * self.health

    def total(self, load: float) -> float:
        """Return the delay of all its requests, seconds per second."""
        if load == 0:
            return 0.0
        return self.health * self.latency.total(load / self.health) if self.health else math.inf

    def slope(self, load: float) -> float:
        """Return what one more request per second adds to that, seconds."""
        return self.latency.slope(load / self.health) if self.health else math.inf

    def load_at(self, slope: float) -> float:
        """Return the load at which the slope is reached."""
        return self.health * self.latency.load_at(slope)


@dataclass(frozen=True)
class Fleet:
    """The whole problem.

    network_s: `[demands, engines]`, the round trip from a demand's front end to an engine, seconds; nan = it
    cannot be reached. max_utilization: of an engine's healthy capacity, what may be used. switching_s: what
    moving a request per second away from, or to, an engine counts as: keeps plans from flapping.
    Raises ValueError naming the entry that is wrong.
    """

    demands: tuple[Demand, ...]
    engines: tuple[Engine, ...]
    network_s: NDArray[np.float64]
    max_utilization: float = 0.95
    switching_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.engines:
            raise ValueError("engines: expected at least one, got none")
        if self.network_s.shape != (len(self.demands), len(self.engines)):
            shape = (len(self.demands), len(self.engines))
            raise ValueError(f"network_s: expected shape {shape}, got {self.network_s.shape}")
        if np.nanmin(self.network_s, initial=0.0) < 0:
            i, j = np.argwhere(self.network_s < 0)[0]
            raise ValueError(
                f"network_s: {self.demands[i].front_end} to {self.engines[j].name}: expected seconds >= 0, "
                f"got {self.network_s[i, j]}"
            )
        if not 0 < self.max_utilization <= 1:
            raise ValueError(f"max_utilization: expected 0..1, got {self.max_utilization}")
        for engine in self.engines:
            if engine.health and not math.isfinite(engine.total(engine.limit * self.max_utilization)):
                raise ValueError(
                    f"max_utilization: expected below 1, {engine.name}'s delay has no bound at its limit"
                )
        if self.switching_s < 0:
            raise ValueError(f"switching_s: expected >= 0, got {self.switching_s}")
        for what, names in (("demands", map(str, self.demands)), ("engines", (e.name for e in self.engines))):
            seen: set[str] = set()
            for name in names:
                if name in seen:
                    raise ValueError(f"{what}: {name} is there twice")
                seen.add(name)

    @property
    def rates(self) -> NDArray[np.float64]:
        """Requests per second of each demand, `[demands]`."""
        return np.array([demand.rate for demand in self.demands])

    @property
    def most(self) -> NDArray[np.float64]:
        """What each engine may get, requests per second, `[engines]`."""
        return np.array([min(e.limit * self.max_utilization, e.at_most) for e in self.engines])

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """Whether a demand may ever go to an engine, `[demands, engines]`: it can, and there is a way."""
        able = [[demand.needs <= engine.has for engine in self.engines] for demand in self.demands]
        return np.array(able, dtype=bool).reshape(self.network_s.shape) & np.isfinite(self.network_s)

    @property
    def eligible(self) -> NDArray[np.bool_]:
        """Whether it may go there now, `[demands, engines]`: what is allowed, if the engine lives."""
        return self.allowed & np.array([engine.health > 0 for engine in self.engines])
