"""The control plane and the front ends of a simulated fleet, and how it is: as in a cluster, without one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Protocol

from parm_ray.routing.fleet.snapshot import Snapshot
from parm_ray.routing.planes import ControlPlane, FrontEnd, Report
from parm_ray.sim.fleet.setting import Change, FleetRun


class Ailing(Protocol):
    """What can be wrong with a simulated engine: its times are `slow` as long, a share fails, it is gone."""

    slow: float
    failing: float
    alive: bool


class Planes:
    """Both planes of a run. `rates`: of each demand now, requests per second; `front_ends`: by name.

    engines: in the order of the fleet's; changes are made to them.
    """

    def __init__(self, run: FleetRun, engines: Sequence[Ailing], rng: random.Random) -> None:
        self._run, self._engines = run, engines
        self._names = [engine.name for engine in run.fleet.engines]
        self.control = ControlPlane(run.fleet, run.control)
        self.front_ends = {
            name: [
                FrontEnd(name, str(n), run.fleet, run.front_end, random.Random(rng.random()), 0.0)
                for n in range(run.replicas)
            ]
            for name in dict.fromkeys(demand.front_end for demand in run.fleet.demands)
        }
        self.rates = [demand.rate for demand in run.fleet.demands]
        self.silent: set[str] = set()
        self._up = True

    def each(self) -> Iterator[FrontEnd]:
        """All replicas of all front ends."""
        return (front_end for replicas in self.front_ends.values() for front_end in replicas)

    def apply(self, change: Change, now: float) -> list[int]:
        """Something is different from now on; return the demands whose rates are."""
        if change.kind == "control":
            if not self._up and not change.value:
                self._restart(now)
            self._up = not change.value
        elif change.kind == "silent":
            (self.silent.add if change.value else self.silent.discard)(change.name)
        elif change.kind == "demand":
            demands = self._run.fleet.demands
            rows = [row for row, demand in enumerate(demands) if demand.front_end == change.name]
            for row in rows:
                self.rates[row] = demands[row].rate * change.value
            return rows
        else:
            engine = self._engines[self._names.index(change.name)]
            if change.kind == "slow":
                engine.slow = change.value
            elif change.kind == "failing":
                engine.failing = change.value
            else:
                engine.alive = not change.value
                # Front ends hear of replicas from the cluster itself, at once.
                for front_end in self.each():
                    front_end.ready(change.name, int(engine.alive), now)
        return []

    def _restart(self, now: float) -> None:
        """Another control plane is there, and goes on from the newest plan that front ends hold."""
        self.control = ControlPlane(self._run.fleet, self._run.control)
        held = [front_end.snapshot for front_end in self.each() if front_end.snapshot is not None]
        newest = max(held, key=lambda snapshot: snapshot.version, default=None)
        if newest is not None:
            self.control.beyond(newest.version)
            age_s = now - newest.created
            if age_s <= self._run.control.ages.lost_s:
                self.control.adopt(newest, now, age_s)

    def reported(self, report: Report, now: float) -> None:
        """A report arrives, if the control plane is there."""
        if self._up:
            self.control.inputs.report(report, now)

    def decide(self, now: float) -> Snapshot | None:
        """An interval is over: return the plan that is published, and in force everywhere, if one is."""
        if not self._up:
            return None
        # Who has replicas the control plane hears from the cluster, again and again.
        for engine, there in zip(self._run.fleet.engines, self._engines, strict=True):
            self.control.inputs.ready(engine.name, float(there.alive) * engine.health, now)
        snapshot = self.control.decide(now, now)
        if snapshot is not None:
            for front_end in self.each():
                front_end.install(snapshot, now)
        return snapshot
