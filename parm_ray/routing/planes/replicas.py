"""The data plane of one deployment's handle: which replica a call gets, from local state alone.

Replicas are told apart by a key, that of their node say, or of the hardware under them, and what has a weight
is a key: its replicas share it. Weights are those of a table until a control plane's snapshot is there, whose
engines are the keys then. The choice is `Picker`'s: the one with less in flight for its weight, of two that
are drawn by weight.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from parm_ray.routing.fleet.pick import NoEngine, Picker
from parm_ray.routing.fleet.snapshot import Snapshot
from parm_ray.routing.planes.calls import Calls
from parm_ray.routing.planes.signals import Report


@dataclass(frozen=True)
class Known:
    """What is known of a replica. key: what its weight is by. weight: of its key, None = as in the table."""

    key: str
    weight: float | None = None


@dataclass(frozen=True)
class ReplicaRule:
    """Weights, >= 0, and what stands for them.

    weights: by key, any scale. default: of keys that are not among them. demand: the row of snapshots, as
    front_end/name. expired_s: age from which on a snapshot gives way to the table.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    default: float = 1.0
    demand: str = ""
    expired_s: float = 180.0

    def __post_init__(self) -> None:
        for name, weight in (*self.weights.items(), ("default", self.default)):
            if not (math.isfinite(weight) and weight >= 0):
                raise ValueError(f"weights: {name}: expected a finite number >= 0, got {weight}")
        if not self.expired_s > 0:
            raise ValueError(f"expired_s: expected seconds > 0, got {self.expired_s}")


class ReplicaPlane:
    """The choice among replicas. name: of whose it is, in reports. Times: seconds of one monotonic clock."""

    def __init__(self, name: str, rule: ReplicaRule, rng: random.Random, now: float) -> None:
        self.name, self.rule, self._rng = name, rule, rng
        self.snapshot: Snapshot | None = None
        self._installed = self._reported = now
        self._arrivals = 0
        self._known: dict[str, Known] = {}
        self._picker = Picker((), rng)
        self._at: dict[str, int] = {}
        self._calls, self._column = Calls(0), dict[str, int]()

    # -- what comes in the background ------------------------------------------------------------

    def know(self, replicas: Mapping[str, Known], now: float) -> None:
        """These are the replicas now. What is in flight at those that stay is kept."""
        before = self.in_flight
        self._known = dict(replicas)
        counts = np.array([before.get(name, 0.0) for name in replicas])
        self._picker = Picker(tuple(replicas), self._rng, counts)
        self._at = {name: i for i, name in enumerate(replicas)}
        self.refresh(now)

    def install(self, snapshot: Snapshot, now: float) -> bool:
        """Use a snapshot from now on; False, and nothing changes, if it is not newer than the one in use.

        Raises ValueError for one without a row of this demand.
        """
        if self.snapshot is not None and snapshot.version <= self.snapshot.version:
            return False
        if self.rule.demand not in snapshot.demands:
            raise ValueError(
                f"demand: expected one of {', '.join(snapshot.demands)}, got {self.rule.demand or 'none'}"
            )
        if self.snapshot is None or snapshot.engines != self.snapshot.engines:
            # Calls that are out were begun under the old columns, and end unseen.
            self._calls = Calls(len(snapshot.engines))
            self._column = {name: j for j, name in enumerate(snapshot.engines)}
        self.snapshot, self._installed = snapshot, now
        self.refresh(now)
        return True

    def refresh(self, now: float) -> None:
        """Take account of the time that has passed."""
        names = list(self._known)
        weights = np.array(self._weights(now))
        if len(weights) and not weights.sum():
            # All that the weights name is gone: whoever is there.
            weights = np.ones(len(names))
        self._picker.reweigh(weights, np.ones(len(names), dtype=bool))

    def _weights(self, now: float) -> list[float]:
        table: Mapping[str, float] = self.rule.weights
        default = self.rule.default
        plan = self.snapshot
        if plan is not None and self.age_s(now) <= self.rule.expired_s:
            row = plan.weights[plan.demands.index(self.rule.demand)].tolist()
            # Where the plan routes nothing (all is shed, or dead) it has no say.
            if any(row):
                table, default = dict(zip(plan.engines, row, strict=True)), 0.0
        sharing = Counter(known.key for known in self._known.values())
        return [
            (table.get(known.key, default) if known.weight is None else known.weight)
            * self._guard(known.key)
            / sharing[known.key]
            for known in self._known.values()
        ]

    def _guard(self, key: str) -> float:
        column = self._column.get(key)
        return 1.0 if column is None else float(self._calls.guard[column])

    @property
    def in_flight(self) -> dict[str, float]:
        """Calls that are out, by replica."""
        return dict(zip(self._picker.names, self._picker.in_flight.tolist(), strict=True))

    @property
    def weights(self) -> dict[str, float]:
        """What each replica's share is now; they sum to 1."""
        return dict(zip(self._picker.names, self._picker.weights, strict=True))

    def age_s(self, now: float) -> float:
        """Return for how many seconds the snapshot in use, or none, has been used."""
        return now - self._installed

    def report(self, now: float) -> Report:
        """Return what happened since the last report, and begin a new interval."""
        seen = dict(zip(self._column, self._calls.taken(now), strict=True))
        front_end, _, demand = self.rule.demand.partition("/")
        seconds, self._reported = max(1e-9, now - self._reported), now
        arrivals, self._arrivals = self._arrivals, 0
        return Report(front_end, self.name, seconds, {demand: arrivals}, seen)

    # -- one call --------------------------------------------------------------------------------

    def choose(self, full: Collection[str] = ()) -> list[str]:
        """Return a replica, and another one for the case that it refuses, none of those in `full`.

        All are there if all are full: one of them may have room by now. Empty: there is no replica at all.
        """
        without = [self._at[name] for name in full if name in self._at]
        first = self._chosen(without)
        if first is None:
            first, without = self._chosen(()), []
        if first is None:
            return []
        second = self._chosen([*without, first])
        return [self._picker.names[i] for i in (first, second) if i is not None]

    def _chosen(self, without: Collection[int]) -> int | None:
        try:
            return self._picker.unkeyed(without)
        except NoEngine:
            return None

    def sent(self, replica: str) -> None:
        """A call is on its way to a replica."""
        if (i := self._at.get(replica)) is not None:
            self._picker.begin(i)

    def done(self, replica: str) -> None:
        """A call that was sent to a replica is over, one way or another."""
        if (i := self._at.get(replica)) is not None:
            self._picker.end(i)

    def begin(self, replica: str, now: float) -> Callable[[float, bool | None], None]:
        """A replica has accepted a call; return what is to be told when it has ended, and how.

        Well, badly, or (None) it was withdrawn. Calls of keys that are not planned for are not reported.
        """
        self._arrivals += 1
        known = self._known.get(replica)
        column = None if known is None else self._column.get(known.key)
        if column is None:
            return lambda at, outcome: None
        calls = self._calls
        calls.begin(column, now)

        def ended(at: float, outcome: bool | None) -> None:
            if calls.end(column, now, at, outcome):
                self.refresh(at)

        return ended
