"""A fleet in virtual time: control plane and front ends as in a cluster, queues in place of engines."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from parm_ray.core import Overloaded
from parm_ray.routing.fleet.pick import NoEngine
from parm_ray.routing.fleet.snapshot import Snapshot
from parm_ray.routing.planes import FrontEnd, Report
from parm_ray.sim.fleet.engine import SimEngine
from parm_ray.sim.fleet.planes import Planes
from parm_ray.sim.fleet.setting import Change, FleetRun
from parm_ray.sim.timers import Agenda


class Request(NamedTuple):
    """What became of one: planned and done in seconds; outcome: ok, shed, failed."""

    planned: float
    done: float
    demand: str
    engine: int
    outcome: str


@dataclass
class Interval:
    """One interval of the run: calls to each engine, in the order of the fleet, and the plan of its end."""

    at_s: float
    calls: list[int]
    offered: int = 0
    sent: int = 0
    penalties: dict[str, float] = field(default_factory=dict)
    version: int = 0
    retry_ratio: float = 0.0


@dataclass
class FleetResult:
    """requests: those that came after the warm-up, in the order of their ends. intervals: all."""

    requests: list[Request]
    intervals: list[Interval]
    snapshots: list[Snapshot]

    def latencies(self, demand: str | None = None) -> list[float]:
        """Return the latencies of what was answered, seconds, of one demand or of all."""
        return [r.done - r.planned for r in self.requests if r.outcome == "ok" and demand in (None, r.demand)]

    def count(self, outcome: str, demand: str | None = None) -> int:
        """Return how many requests ended so."""
        return sum(r.outcome == outcome and demand in (None, r.demand) for r in self.requests)


@dataclass
class _Call:
    """One call of one request."""

    front_end: FrontEnd
    demand: str
    name: str
    row: int
    planned: float
    key: str | None
    engine: int = -1
    tried: tuple[int, ...] = ()
    began: float = 0.0


def simulate_fleet(run: FleetRun) -> FleetResult:
    """Run a fleet and return what became of every request."""
    return _Simulation(run).result()


class _Simulation:
    def __init__(self, run: FleetRun) -> None:
        self.run, self.agenda = run, Agenda()
        rng = random.Random(run.seed)
        self.rng = rng
        fleet = run.fleet
        self.engines = [
            SimEngine(engine, self.agenda, random.Random(rng.random()), self._served, run.fail_s)
            for engine in fleet.engines
        ]
        self.planes = Planes(run, self.engines, rng)
        self.network = fleet.network_s.tolist()
        # Of each demand, how often its rate has changed: an arrival that was drawn before comes to nothing.
        self.drawn = [0] * len(fleet.demands)
        self.found = FleetResult([], [], [])
        self.interval = Interval(0.0, [0] * len(fleet.engines))
        for change in (*run.changes, *run.background):
            self.agenda.plan(change.at_s, self._change, change)
        for row in range(len(fleet.demands)):
            self._next_arrival(row)
        self._decide(None)

    def result(self) -> FleetResult:
        self.agenda.run()
        return self.found

    # -- requests ----------------------------------------------------------------------------------

    def _next_arrival(self, row: int) -> None:
        if self.planes.rates[row] <= 0:
            return
        at = self.agenda.now + self.rng.expovariate(self.planes.rates[row])
        if at < self.run.duration_s:
            self.agenda.plan(at, self._arrival, (row, self.drawn[row]))

    def _arrival(self, drawn: tuple[int, int]) -> None:
        row, number = drawn
        if number != self.drawn[row]:
            return
        self._next_arrival(row)
        demand, now = self.run.fleet.demands[row], self.agenda.now
        front_end = self.rng.choice(self.planes.front_ends[demand.front_end])
        key = f"key-{self.rng.randrange(self.run.keys)}" if self.run.keys else None
        call = _Call(front_end, str(demand), demand.name, row, now, key)
        self.interval.offered += 1
        try:
            call.engine = front_end.route(demand.name, now, key)
        except Overloaded:
            self._end(call, "shed")
        except NoEngine:
            self._end(call, "failed")
        else:
            self._send(call)

    def _send(self, call: _Call) -> None:
        call.began = self.agenda.now
        call.tried = (*call.tried, call.engine)
        call.front_end.begin(call.engine, call.began)
        self.interval.calls[call.engine] += 1
        self.interval.sent += 1
        there = call.began + self.network[call.row][call.engine] / 2
        self.agenda.plan(there, self.engines[call.engine].arrive, call)

    def _served(self, call: Any, well: bool) -> None:
        back = self.agenda.now + self.network[call.row][call.engine] / 2
        self.agenda.plan(back, self._answered if well else self._failed, call)

    def _answered(self, call: _Call) -> None:
        call.front_end.end(call.engine, call.began, self.agenda.now, True)
        self._end(call, "ok")

    def _failed(self, call: _Call) -> None:
        now, front_end = self.agenda.now, call.front_end
        front_end.end(call.engine, call.began, now, False)
        rule = front_end.rule.retry
        if len(call.tried) >= rule.attempts or not front_end.budget.schedule(now):
            self._end(call, "failed")
            return
        self.agenda.plan(now + rule.wait_s(len(call.tried), self.rng.random()), self._again, call)

    def _again(self, call: _Call) -> None:
        """The backoff is over: somewhere else if there is somewhere else."""
        front_end = call.front_end
        if not front_end.budget.leave():
            self._end(call, "failed")
            return
        engine = front_end.once_more(call.name, call.key, call.tried)
        if engine is None:
            front_end.budget.give_back()
            self._end(call, "failed")
            return
        self._send(replace(call, engine=engine))

    def _end(self, call: _Call, outcome: str) -> None:
        if call.planned >= self.run.warm_up_s:
            request = Request(call.planned, self.agenda.now, call.demand, call.engine, outcome)
            self.found.requests.append(request)

    # -- planes ------------------------------------------------------------------------------------

    def _decide(self, _: None) -> None:
        """One interval is over: reports leave, the control plane decides, front ends pull."""
        now, run = self.agenda.now, self.run
        for front_end in self.planes.each():
            report = front_end.report(now)
            if front_end.name not in self.planes.silent:
                self.agenda.plan(now + run.delay_intervals * run.interval_s, self._reported, report)
            front_end.refresh(now)
        self.agenda.plan(now, self._publish, None)

    def _reported(self, report: Report) -> None:
        # The first, before any time has passed, is of no interval.
        if report.seconds > 1e-6:
            self.planes.reported(report, self.agenda.now)

    def _publish(self, _: None) -> None:
        now, run = self.agenda.now, self.run
        if (snapshot := self.planes.decide(now)) is not None:
            self.found.snapshots.append(snapshot)
        some = next(self.planes.each())
        done, self.interval = self.interval, Interval(now, [0] * len(self.engines))
        done.penalties = dict(self.planes.control.penalties.multipliers)
        done.version = 0 if some.snapshot is None else some.snapshot.version
        done.retry_ratio = some.budget.ratio
        if now > 0:
            self.found.intervals.append(done)
        if now + run.interval_s <= run.duration_s + 1e-9:
            self.agenda.plan(now + run.interval_s, self._decide, None)

    def _change(self, change: Change) -> None:
        for row in self.planes.apply(change, self.agenda.now):
            # Poisson arrivals have no memory: the time to the next one is drawn again.
            self.drawn[row] += 1
            self._next_arrival(row)
