"""What a simulated fleet is, and what happens to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from parm_ray.routing.fleet import MG1, MM1, Engine, EngineLatency, Fleet, MGc
from parm_ray.routing.planes import ControlRule, FrontEndRule

ChangeKind = Literal["slow", "dead", "failing", "demand", "control", "silent"]
CHANGES: tuple[str, ...] = get_args(ChangeKind)


@dataclass(frozen=True)
class Change:
    """From `at_s` seconds on something is different.

    kind: slow: an engine's service takes `value` times as long (1 = as ever); dead: it has no ready replica
    (1; 0 = it has them again; what it has begun it finishes); failing: a share `value` of its calls fails at
    once; demand: all of a front end's demand is `value` times the declared; control: the control plane is
    down (1) or up (0); silent: a front end's reports are lost (1) or arrive (0). name: of the engine or the
    front end.
    """

    at_s: float
    kind: ChangeKind
    value: float
    name: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.at_s) and self.at_s >= 0):
            raise ValueError(f"at_s: expected seconds >= 0, got {self.at_s}")
        if self.kind not in CHANGES:
            raise ValueError(f"kind: expected one of {CHANGES}, got {self.kind!r}")
        if not (math.isfinite(self.value) and self.value >= 0):
            raise ValueError(f"value: expected a number >= 0, got {self.value}")
        if self.kind == "failing" and self.value > 1:
            raise ValueError(f"value: expected a share 0..1 for failing, got {self.value}")
        if self.kind == "slow" and not self.value > 0:
            raise ValueError(f"value: expected > 0 for slow, got {self.value}")


@dataclass(frozen=True)
class FleetRun:
    """One simulation. Arrivals are Poisson.

    Calls take as long as they take: there are no timeouts, and no hedges.
    duration_s: arrivals end then. interval_s: between reports, decisions and pulls. delay_intervals: how
    many intervals a report takes to reach the control plane. replicas: of every front end. keys: of requests
    that carry one, drawn from so many, all alike; 0 = requests carry none. warm_up_s: what comes earlier is
    not in the records. fail_s: what a failing call takes at the engine. changes: what reports and pages tell
    apart; background: what happens besides, too much of it to be told.
    """

    fleet: Fleet
    control: ControlRule = field(default_factory=ControlRule)
    front_end: FrontEndRule = field(default_factory=FrontEndRule)
    duration_s: float = 60.0
    warm_up_s: float = 0.0
    interval_s: float = 1.0
    delay_intervals: int = 0
    replicas: int = 1
    keys: int = 0
    fail_s: float = 0.001
    changes: tuple[Change, ...] = ()
    background: tuple[Change, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("duration_s", "interval_s"):
            if not (math.isfinite(value := getattr(self, name)) and value > 0):
                raise ValueError(f"{name}: expected seconds > 0, got {value}")
        if not 0 <= self.warm_up_s < self.duration_s:
            raise ValueError(f"warm_up_s: expected 0..duration_s, got {self.warm_up_s}")
        if self.delay_intervals < 0:
            raise ValueError(f"delay_intervals: expected >= 0, got {self.delay_intervals}")
        if self.replicas < 1:
            raise ValueError(f"replicas: expected >= 1, got {self.replicas}")
        engines = {engine.name for engine in self.fleet.engines}
        front_ends = {demand.front_end for demand in self.fleet.demands}
        for change in (*self.changes, *self.background):
            if change.at_s > self.duration_s:
                raise ValueError(
                    f"changes: at_s: expected 0..duration_s ({self.duration_s:g}), got {change.at_s:g}"
                )
            known = front_ends if change.kind in ("demand", "silent") else engines
            if change.kind != "control" and change.name not in known:
                raise ValueError(
                    f"changes: {change.kind}: expected one of {', '.join(sorted(known))}, got {change.name!r}"
                )
        for engine in self.fleet.engines:
            servers_of(engine)


def servers_of(engine: Engine) -> tuple[int, float, float]:
    """Return servers that work, mean service time in seconds and its squared coefficient of variation.

    Raises ValueError for a profile, which says how long requests take and not why, and for a part of a
    server.
    """
    latency: EngineLatency = engine.latency
    if isinstance(latency, MGc):
        working = round(latency.servers * engine.health)
        if abs(working - latency.servers * engine.health) > 1e-6:
            raise ValueError(
                f"{engine.name}: health: expected a whole number of {latency.servers} servers, "
                f"got {engine.health}"
            )
        return working, latency.servers / latency.limit, latency.cv2
    if engine.health not in (0, 1):
        raise ValueError(f"{engine.name}: health: expected 0 or 1 of one server, got {engine.health}")
    if isinstance(latency, MM1):
        return 1, 1 / latency.limit, 1.0
    if isinstance(latency, MG1):
        return 1, 1 / latency.limit, latency.cv2
    raise ValueError(
        f"{engine.name}: latency: expected mm1, mg1 or mgc to simulate, got {type(latency).__name__}"
    )
