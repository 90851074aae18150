"""The data plane of one front end: which engine a request gets, from local state alone.

No I/O, no waiting, nothing asked of the control plane: a snapshot is installed when one comes, and the last
one goes on working. On top of the plan's weights there are guardrails from live signals: an engine without a
ready replica gets nothing, one that fails again and again next to nothing.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parm_ray.core import Overloaded
from parm_ray.routing.fleet import Demand, Fleet
from parm_ray.routing.fleet.pick import NoEngine, Picker
from parm_ray.routing.fleet.snapshot import Freshness, Snapshot, freshness
from parm_ray.routing.planes.admission import AdmissionRule, Gate
from parm_ray.routing.planes.calls import Calls
from parm_ray.routing.planes.retry_budget import RetryBudget, RetryRule
from parm_ray.routing.planes.signals import Report

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FrontEndRule:
    """How a front end decides.

    stale_s: age of a snapshot from which on it is called stale, and used all the same. expired_s: age from
    which on its weights give way, within as much time again, to the nearest engines in proportion to their
    capacity.
    """

    admission: AdmissionRule = field(default_factory=AdmissionRule)
    retry: RetryRule = field(default_factory=RetryRule)
    stale_s: float = 10.0
    expired_s: float = 180.0

    def __post_init__(self) -> None:
        if not 0 < self.stale_s <= self.expired_s:
            got = f"{self.stale_s}, {self.expired_s}"
            raise ValueError(f"stale_s, expired_s: expected 0 < stale_s <= expired_s, got {got}")


class NotEligible(NoEngine):
    """No engine of the fleet may ever serve the demand: a matter of configuration, not of load."""


class _Row:
    """One demand of this front end: its choice, its gate, its counts."""

    def __init__(self, demand: Demand, rank: int, may: NDArray[np.bool_], local: Array, gate: Gate) -> None:
        self.demand, self.rank, self.may, self.local, self.gate = demand, rank, may, local, gate
        self.plan = local
        self.arrivals = 0


class FrontEnd:
    """One replica of one front end.

    engines: names, in the order of all indices. Times are seconds of one monotonic clock.
    """

    def __init__(
        self, name: str, replica: str, fleet: Fleet, rule: FrontEndRule, rng: random.Random, now: float
    ) -> None:
        self.name, self.replica, self.rule = name, replica, rule
        self.engines = tuple(engine.name for engine in fleet.engines)
        self.budget = RetryBudget(rule.retry)
        self.snapshot: Snapshot | None = None
        self._front_ends = len({demand.front_end for demand in fleet.demands})
        n = len(self.engines)
        self.calls = Calls(n)
        self._ready = np.ones(n, dtype=bool)
        # Whether there is enough of all engines together, by the plan.
        self._room = True
        self._reported = self._installed = now
        prices = sorted({demand.shed_price_s for demand in fleet.demands}, reverse=True)
        # An engine that was declared dead, and is found alive, has all that it was said to have.
        capacity = np.array([engine.limit or engine.latency.limit for engine in fleet.engines])
        self._rows: dict[str, _Row] = {}
        self._pickers: dict[str, Picker] = {}
        for demand, may, network in zip(fleet.demands, fleet.allowed, fleet.network_s, strict=True):
            if demand.front_end == name:
                gate = Gate(rule.admission)
                local = _nearest(may, network) * capacity
                self._rows[demand.name] = _Row(demand, prices.index(demand.shed_price_s), may, local, gate)
                self._pickers[demand.name] = Picker(self.engines, rng, self.in_flight)
        if not self._rows:
            raise ValueError(f"{name}: has no demand in this fleet")
        # Until there is a plan: as many as would be there at the highest utilisation, for each front end.
        there = [engine.total(top) for engine, top in zip(fleet.engines, fleet.most.tolist(), strict=True)]
        self._limit(np.array(there), [row.rank for row in self._rows.values()])
        self._reweigh(now)

    # -- what comes in the background ------------------------------------------------------------

    def install(self, snapshot: Snapshot, now: float) -> bool:
        """Use a snapshot from now on; False, and nothing changes, if it is not newer than the one in use."""
        if self.snapshot is not None and snapshot.version <= self.snapshot.version:
            return False
        columns = {name: j for j, name in enumerate(snapshot.engines)}
        at = [columns.get(name, -1) for name in self.engines]
        there = np.array([j >= 0 for j in at])
        rows = dict(zip(snapshot.demands, range(len(snapshot.demands)), strict=True))
        sent = np.zeros(len(self.engines))
        replicas = max(1, snapshot.replicas.get(self.name, 1))
        for row in self._rows.values():
            i = rows.get(str(row.demand))
            if i is None:
                continue
            row.plan = np.where(there, snapshot.weights[i, at], 0.0)
            passed = float(snapshot.rates[i] - snapshot.shed[i])
            sent += row.plan * passed
            row.gate.narrow(passed / replicas if snapshot.shed[i] > 1e-9 * snapshot.rates[i] else None, now)
        loads = np.where(there, snapshot.loads[at], 0.0)
        # What the plan gives it, or an even part: it may have to take over from another before the next plan.
        share = np.divide(sent, loads, out=np.zeros_like(sent), where=loads > 1e-9)
        share = np.maximum(share, 1 / self._front_ends)
        self._limit(
            np.where(there, snapshot.in_flight[at], 0.0) * share / replicas,
            [row.rank for row in self._rows.values()],
        )
        self.snapshot, self._installed = snapshot, now
        self.refresh(now)
        return True

    def ready(self, engine: str, replicas: int, now: float) -> None:
        """An engine has that many replicas that are ready; with none it gets nothing until it has some."""
        j = self.engines.index(engine)
        if bool(self._ready[j]) != (replicas > 0):
            self._ready[j] = replicas > 0
            self._reweigh(now)

    def refresh(self, now: float) -> None:
        """Take account of the time that has passed; called every interval, and when a snapshot comes."""
        plan, planned = self.snapshot, 0.0
        self._room = True
        if plan is not None and self.freshness(now) != "expired":
            # Demands that nobody may serve now are shed for want of an engine, not of room.
            full = plan.shed[np.isfinite(plan.network_s).any(axis=1)].sum() > 1e-6 * plan.rates.sum()
            planned = 1.0 if full else plan.utilization
            self._room = not full
        elif plan is not None:
            # What it said of the load is of no more use than its weights: what is in flight has to do.
            for row in self._rows.values():
                row.gate.narrow(None, now)
        whole = self._limits[0].sum()
        self.budget.load(max(planned, float(self.in_flight.sum() / whole) if whole else 1.0))
        self._reweigh(now)

    def age_s(self, now: float) -> float:
        """Return for how many seconds the plan in use, or none, has been used."""
        return now - self._installed

    def freshness(self, now: float) -> Freshness:
        """Return whether the plan in use is fresh, stale or expired."""
        return freshness(self.age_s(now), self.rule.stale_s, self.rule.expired_s)

    @property
    def in_flight(self) -> Array:
        """Calls that are out, `[engines]`."""
        return self.calls.in_flight

    @property
    def limits(self) -> Array:
        """How many calls engines may have in flight from here, `[engines]`, of the most important kind."""
        return self._limits[0]

    def admitted(self, demand: str) -> float | None:
        """Return how many requests per second of a demand may pass; None = all."""
        return self._rows[demand].gate.rate

    def weights(self) -> dict[str, dict[str, float]]:
        """Return the share of each engine now, guardrails included, by demand."""
        return {name: dict(zip(self.engines, p.weights, strict=True)) for name, p in self._pickers.items()}

    def report(self, now: float) -> Report:
        """Return what happened since the last report, and begin a new interval."""
        engines = dict(zip(self.engines, self.calls.taken(now), strict=True))
        rows = self._rows.items()
        found = Report(
            self.name,
            self.replica,
            max(1e-9, now - self._reported),
            {name: row.arrivals for name, row in rows},
            engines,
        )
        for row in self._rows.values():
            row.arrivals = 0
        self._reported = now
        return found

    # -- one request -----------------------------------------------------------------------------

    def route(self, demand: str, now: float, key: str | None = None) -> int:
        """Return the engine of a new request, by its index; `begin` when it is sent.

        Raises KeyError for a demand that this front end has not, NotEligible if no engine may serve it ever,
        NoEngine if none can now, and Overloaded if it is shed.
        """
        row = self._rows[demand]
        row.arrivals += 1
        self.budget.request(now)
        if not row.gate.admit(now):
            raise Overloaded(f"{row.demand}: more than can be served", row.gate.retry_after_s())
        try:
            return self.another(demand, key)
        except (Overloaded, NoEngine):
            row.gate.give_back()
            raise

    def another(self, demand: str, key: str | None = None, without: Collection[int] = ()) -> int:
        """Return an engine for a second call of a request that those in `without` have, or have failed.

        Raises as `route` does.
        """
        row, picker = self._rows[demand], self._pickers[demand]
        if not row.may.any():
            raise NotEligible(f"{row.demand}: no engine has {', '.join(sorted(row.demand.needs)) or 'a way'}")
        first = picker.unkeyed(without) if key is None else picker.keyed(key, without)
        limits = self._limits[row.rank]
        if self.in_flight[first] < limits[first]:
            return first
        # Those of the plan first. Then whoever may and can, unless the plan sheds: until the next one nobody
        # is to be turned away while an engine idles that this one had no need of; where there is too little
        # of all, more of them would only wait longer.
        others = np.flatnonzero(row.may & self._ready & (self.calls.guard >= 1) & self._room)
        for some in (picker.able, others):
            left = [j for j in some.tolist() if self.in_flight[j] < limits[j] and j not in without]
            if left:
                break
        else:
            raise Overloaded(f"{row.demand}: every engine is full", 1.0)
        return min(left, key=lambda j: self.in_flight[j] / limits[j])

    def once_more(self, demand: str, key: str | None, tried: Sequence[int]) -> int | None:
        """Return an engine for a retry: one that was not tried, else not the last of them, else the last.

        None: every engine is full, or none is there.
        """
        for without in (tried, tried[-1:], ()):
            try:
                return self.another(demand, key, without)
            except (NoEngine, Overloaded):
                continue
        return None

    def begin(self, engine: int, now: float) -> None:
        """A call is sent to an engine."""
        self.calls.begin(engine, now)

    def end(self, engine: int, began: float, now: float, outcome: bool | None, lost: bool = False) -> None:
        """A call has ended, as `Calls.end` says."""
        if self.calls.end(engine, began, now, outcome, lost):
            self._reweigh(now)

    # -- inside ----------------------------------------------------------------------------------

    def _limit(self, planned: Array, ranks: list[int]) -> None:
        rule = self.rule.admission
        self._limits = {
            rank: np.array([rule.limit(float(number), rank) for number in planned], dtype=np.float64)
            for rank in {0, *ranks}
        }

    def _reweigh(self, now: float) -> None:
        """Weights of the plan, or what stands in for one that is too old, behind the guardrails."""
        age = now - self._installed
        old = 0.0
        if self.snapshot is not None and age > self.rule.expired_s:
            old = min(1.0, age / self.rule.expired_s - 1)
        for name, row in self._rows.items():
            weights = (1 - old) * _normal(row.plan) + old * _normal(row.local)
            guarded = np.where(row.may & self._ready, weights * self.calls.guard, 0.0)
            if not guarded.sum():
                # All that the plan uses is gone: whoever may serve it and is there.
                guarded = np.where(row.may & self._ready, 1.0, 0.0)
            self._pickers[name].reweigh(guarded, row.may)


def _nearest(may: NDArray[np.bool_], network: Array) -> Array:
    """Return 1 for the engines that are nearest of those that may serve, else 0."""
    away = np.where(may, network, np.inf)
    return np.where(may & (away <= away.min(initial=np.inf) + 1e-9), 1.0, 0.0)


def _normal(weights: Array) -> Array:
    total = weights.sum()
    return weights / total if total > 0 else weights
