"""A fleet in virtual time, interval by interval: hours of hundreds of engines in minutes.

Control plane and front ends are those of a cluster. In place of each request there are mean numbers, split by
the front ends' weights; engines are fluids. What front ends report is counted with the noise of Poisson
arrivals; engines are not fed with it, as it is in their latency models already. So there are means and no
quantiles, changes take effect at the next interval, and what a front end does within an interval (the less
loaded of two, a guard after five failures) shows from the next on. Where that matters `simulate_fleet` plays
every request.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parm_ray.routing.planes import FrontEnd, Report, Seen
from parm_ray.sim.fleet.fluid_engine import FluidEngine
from parm_ray.sim.fleet.planes import Planes
from parm_ray.sim.fleet.setting import FleetRun

Array = NDArray[np.float64]

# Calls by which a front end learns that an engine fails, in an interval: its guard needs no more.
_PROBES = 20


@dataclass
class FluidInterval:
    """One interval. at_s: its end. calls: to each engine, retries among them. offered, shed, failed,
    answered: requests; sent: calls. mean_s: of those answered, network included; worst_s: of the slowest
    way that at least 1 % of all took. expected_s: by the plan of its end.
    """

    at_s: float
    calls: list[float] = field(default_factory=list)
    offered: float = 0.0
    sent: float = 0.0
    shed: float = 0.0
    failed: float = 0.0
    answered: float = 0.0
    mean_s: float = 0.0
    worst_s: float = 0.0
    penalties: dict[str, float] = field(default_factory=dict)
    version: int = 0
    retry_ratio: float = 0.0
    expected_s: float = 0.0


@dataclass
class FluidResult:
    """All intervals, the warm-up's too."""

    intervals: list[FluidInterval]


def simulate_fluid(run: FleetRun) -> FluidResult:
    """Run a fleet and return what it did. Keys, and `fail_s`, make no difference."""
    return _Fluid(run).result()


@dataclass(frozen=True)
class _Source:
    """One demand at one replica of its front end; its row in all arrays."""

    front_end: FrontEnd
    row: int
    name: str


class _Fluid:
    def __init__(self, run: FleetRun) -> None:
        self.run = run
        rng = random.Random(run.seed)
        self.draw = np.random.default_rng(rng.randrange(2**63))
        self.engines = [FluidEngine(engine) for engine in run.fleet.engines]
        self.names = [engine.name for engine in run.fleet.engines]
        self.planes = Planes(run, self.engines, rng)
        self.sources = [
            _Source(front_end, row, demand.name)
            for row, demand in enumerate(run.fleet.demands)
            for front_end in self.planes.front_ends[demand.front_end]
        ]
        self.network = np.nan_to_num(run.fleet.network_s)[[source.row for source in self.sources]]
        # Requests that are at engines, by where they came from.
        self.there = np.zeros(self.network.shape)
        # Of each front end's replica, engines whose last call failed.
        self.failed: dict[tuple[str, str], set[int]] = {}
        self.changes = deque(sorted((*run.changes, *run.background), key=lambda change: change.at_s))
        # Reports on their way, a list for each interval that they still take.
        self.posted: deque[list[Report]] = deque([] for _ in range(run.delay_intervals))

    def result(self) -> FluidResult:
        run = self.run
        self.planes.decide(0.0)
        count = round(run.duration_s / run.interval_s)
        return FluidResult([self._interval(n * run.interval_s) for n in range(count)])

    def _interval(self, start: float) -> FluidInterval:
        while self.changes and self.changes[0].at_s <= start + 1e-9:
            self.planes.apply(self.changes.popleft(), start)
        end = start + self.run.interval_s
        found = FluidInterval(end)
        came, passed = self._arrivals()
        sent = self._split(passed)
        failed = sent * [one.failing if one.alive else 1.0 for one in self.engines]
        retried = self._retries(came, failed)
        latency, ended, refused = self._serve(sent - failed + retried)
        away = self.network + latency
        found.offered, found.answered = float(came.sum()), float(ended.sum())
        found.shed = max(0.0, float(came.sum() - sent.sum())) + refused
        found.failed = max(0.0, float(failed.sum() - retried.sum()))
        found.calls = (sent + retried).sum(axis=0).tolist()
        found.sent = float(sent.sum() + retried.sum())
        if found.answered:
            found.mean_s = float((ended * away).sum() / found.answered)
            found.worst_s = float(away[ended >= 0.01 * found.answered].max(initial=0.0))
        self._report(end, came, ended, failed, away)
        self._published(end, found)
        return found

    def _arrivals(self) -> tuple[Array, Array]:
        """Return what comes, and of that what is not turned away, by source."""
        rates = [
            self.planes.rates[one.row] / len(self.planes.front_ends[one.front_end.name])
            for one in self.sources
        ]
        seconds = self.run.interval_s
        came = np.array(rates) * seconds
        gates = [one.front_end.admitted(one.name) for one in self.sources]
        most = np.array([np.inf if rate is None else rate * seconds for rate in gates])
        return came, np.minimum(came, most)

    def _split(self, passed: Array) -> Array:
        """Return where it goes, `[sources, engines]`; nowhere, if no engine is there."""
        sent = np.zeros(self.there.shape)
        for i, source in enumerate(self.sources):
            shares = self._shares(source)
            if shares.sum():
                sent[i] = passed[i] * shares / shares.sum()
        return sent

    @staticmethod
    def _shares(source: _Source) -> Array:
        return np.array(list(source.front_end.weights()[source.name].values()))

    def _retries(self, came: Array, failed: Array) -> Array:
        """Return where failed calls go once more, as far as budgets reach: where calls do not fail."""
        retried = np.zeros(failed.shape)
        fine = np.array([one.alive and not one.failing for one in self.engines])
        for i in np.flatnonzero(failed.sum(axis=1)).tolist():
            source = self.sources[i]
            others = self._shares(source) * fine
            if others.sum():
                most = min(failed[i].sum(), source.front_end.budget.ratio * came[i])
                retried[i] = most * others / others.sum()
        return retried

    def _serve(self, served: Array) -> tuple[Array, Array, float]:
        """Let engines work; return latencies `[engines]`, answers `[sources, engines]`, refusals."""
        limits = np.sum([front_end.limits for front_end in self.planes.each()], axis=0)
        self.there += served
        latency, ended, turned = np.zeros(len(self.engines)), np.zeros(served.shape), 0.0
        for j, engine in enumerate(self.engines):
            before = float(self.there[:, j].sum())
            if not before:
                continue
            done, latency[j], refused = engine.step(
                float(served[:, j].sum()), self.run.interval_s, float(limits[j])
            )
            # Who came first is not kept: all that are there end at the same rate.
            ended[:, j] = self.there[:, j] * done / before
            self.there[:, j] *= engine.number / before
            turned += refused
        return latency, ended, turned

    def _report(self, end: float, came: Array, ended: Array, failed: Array, away: Array) -> None:
        reports = []
        for front_end in self.planes.each():
            rows = [i for i, source in enumerate(self.sources) if source.front_end is front_end]
            front_end.in_flight[:] = self.there[rows].sum(axis=0)
            answers, failures = ended[rows].sum(axis=0), failed[rows].sum(axis=0)
            self._guard(front_end, end, answers, failures)
            front_end.refresh(end)
            if front_end.name in self.planes.silent:
                continue
            counts = {self.sources[i].name: int(self.draw.poisson(came[i])) for i in rows}
            seconds = (ended[rows] * away[rows]).sum(axis=0)
            # Half of their time, on average, is still to come.
            waited = (self.there[rows] * away[rows]).sum(axis=0) / 2
            seen = {
                self.names[j]: Seen(answers[j], seconds[j], failures[j], front_end.in_flight[j], waited[j])
                for j in np.flatnonzero(answers + failures).tolist()
            }
            reports.append(Report(front_end.name, front_end.replica, self.run.interval_s, counts, seen))
        self.posted.append(reports)
        for report in self.posted.popleft():
            self.planes.reported(report, end)

    def _guard(self, front_end: FrontEnd, now: float, answers: Array, failures: Array) -> None:
        """Show a front end a few of its calls to engines that fail, or did, as it would have seen them."""
        failed = self.failed.setdefault((front_end.name, front_end.replica), set())
        for j in sorted({*failed, *np.flatnonzero(failures).tolist()}):
            calls = answers[j] + failures[j]
            for _ in range(min(_PROBES, int(self.draw.poisson(calls)))):
                well = bool(self.draw.random() * calls >= failures[j])
                front_end.begin(j, now)
                front_end.end(j, now, now, well)
                (failed.discard if well else failed.add)(j)
        # What it has counted is of those alone.
        front_end.report(now)

    def _published(self, now: float, found: FluidInterval) -> None:
        snapshot = self.planes.decide(now)
        left = self.planes.control.penalties.multipliers
        found.penalties = {name: part for name, part in left.items() if part < 1}
        found.expected_s = 0.0 if snapshot is None else snapshot.mean_s
        first = self.sources[0].front_end
        found.version = 0 if first.snapshot is None else first.snapshot.version
        found.retry_ratio = first.budget.ratio
