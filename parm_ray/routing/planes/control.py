"""The control plane's decision, pure: what was heard in, one snapshot out, every interval.

It runs in the cluster's control plane and in the fleet simulator alike. A plan that cannot be made leaves
the last snapshot as it is: front ends go on with it.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from parm_ray.core import ParmError
from parm_ray.routing.fleet import Fleet, Routing, Solution, solve
from parm_ray.routing.fleet.feedback import Controller, Feedback
from parm_ray.routing.fleet.memory import Memory, fingerprint
from parm_ray.routing.fleet.snapshot import Snapshot
from parm_ray.routing.planes.inputs import Ages, Inputs
from parm_ray.routing.planes.penalty import Penalties, PenaltyRule
from parm_ray.routing.planes.signals import Health, Seen

Policy = Literal["planned", "feedback"]
POLICIES: tuple[str, ...] = get_args(Policy)

# Of an engine's limit, the most that a latency is expected for: beyond it any is as good as it should be.
NEAR = 0.99

# What says that there is no plan; anything else is a fault of ours, and its trace is needed.
KNOWN = (ParmError, ValueError)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ControlRule:
    """How the control plane decides.

    policy: planned: the optimizer; feedback: the controller of the old way, the baseline. smoothing_s: of
    reported rates, seconds. ages: from when on what was heard is stale, and lost.
    """

    policy: Policy = "planned"
    smoothing_s: float = 5.0
    ages: Ages = field(default_factory=Ages)
    penalty: PenaltyRule = field(default_factory=PenaltyRule)
    feedback: Feedback = field(default_factory=lambda: Feedback(gain=0.1))

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"policy: expected one of {POLICIES}, got {self.policy!r}")


class ControlPlane:
    """Decides on one fleet. `inputs` takes what is heard; `decide` is called every interval.

    first_version: of its snapshots, at least; one that takes another's place has to go on from where that one
    ended, by `adopt` or by `beyond`.
    """

    def __init__(self, fleet: Fleet, rule: ControlRule, first_version: int = 1) -> None:
        names = [engine.name for engine in fleet.engines]
        self.rule = rule
        self.inputs = Inputs(fleet, rule.ages, rule.smoothing_s)
        self.penalties = Penalties(names, rule.penalty)
        self.snapshot: Snapshot | None = None
        self.failed: str | None = None
        self._version = first_version
        self._before: NDArray[np.float64] | None = None
        self._answered = np.zeros(len(names))
        self._planned_loads: deque[NDArray[np.float64]] = deque(maxlen=2)
        self._lifted: set[str] = set()
        self._feedback = Controller(rule.feedback, {name: 1 / len(names) for name in names})
        self._demands, self._engines = tuple(map(str, fleet.demands)), tuple(names)
        self._fingerprint = fingerprint(fleet)

    def beyond(self, version: int) -> None:
        """A front end has a plan of that version: those to come are newer."""
        self._version = max(self._version, version + 1)

    def adoptable(self, snapshot: Snapshot, age_s: float) -> None:
        """Raise ValueError for a snapshot that another control plane of this fleet did not make of late."""
        if snapshot.memory.fleet != self._fingerprint:
            raise ValueError(f"fleet: expected a plan of {self._fingerprint}, got {snapshot.memory.fleet}")
        for what, mine, its in (
            ("demands", self._demands, snapshot.demands),
            ("engines", self._engines, snapshot.engines),
        ):
            if mine != its:
                raise ValueError(f"{what}: expected {', '.join(mine)}, got {', '.join(its)}")
        if not age_s <= self.rule.ages.lost_s:
            raise ValueError(f"age: expected at most {self.rule.ages.lost_s:g} s, got {age_s:g}")
        if self.snapshot is not None and snapshot.version <= self.snapshot.version:
            raise ValueError(f"version: expected above {self.snapshot.version}, got {snapshot.version}")

    def adopt(self, snapshot: Snapshot, now: float, age_s: float) -> None:
        """Go on from another control plane's last plan, so many seconds old, before the first decision.

        Its rates, penalties, shares and flows are this one's then, and its version is followed by newer ones.
        Raises ValueError as `adoptable`, and changes nothing then.
        """
        self.adoptable(snapshot, age_s)
        memory = snapshot.memory
        self.beyond(snapshot.version)
        self.snapshot = snapshot
        self.penalties.restore(memory.multipliers, memory.reasons, memory.failing)
        self.inputs.recall(dict(zip(snapshot.demands, snapshot.rates.tolist(), strict=True)), now, age_s)
        self._before = snapshot.weights * (snapshot.rates - snapshot.shed)[:, None]
        self._planned_loads.append(snapshot.loads)
        if set(memory.shares) == set(self._engines):
            self._feedback.shares = dict(memory.shares)

    def decide(self, now: float, wall: float) -> Snapshot | None:
        """Return the new snapshot, or the last one (None = there never was one) if no plan can be made.

        now: seconds, as in the inputs; wall: seconds since 1970. `failed` says what went wrong, if it did.
        """
        try:
            fleet = self.inputs.fleet(now)
            seen = {engine.name: self._seen(fleet, engine.name, now) for engine in fleet.engines}
            self._answered = np.array([self.inputs.answered(engine.name, now) for engine in fleet.engines])
            self.inputs.judged()
            plan = (
                self._fed_back(fleet, seen) if self.rule.policy == "feedback" else self._planned(fleet, seen)
            )
        except Exception as error:  # Whatever it is, front ends need a plan, and the next one may be made.
            self.failed = str(error) or type(error).__name__
            log.warning("no new plan, the last one stays: %s", error, exc_info=not isinstance(error, KNOWN))
            return self.snapshot
        self.failed = None
        self._before = (plan.routing if isinstance(plan, Solution) else plan).flows
        self._planned_loads.append(self._before.sum(axis=0))
        self.snapshot = Snapshot.of(
            plan,
            version=self._version,
            created=wall,
            ages_s=self.inputs.ages(now),
            penalties=self._told(),
            replicas=self.inputs.replicas(now),
            memory=self._memory(),
        )
        self._version += 1
        return self.snapshot

    def _memory(self) -> Memory:
        penalties = self.penalties
        return Memory(
            self._fingerprint,
            {name: left for name, left in penalties.multipliers.items() if left < 1},
            dict(penalties.reasons),
            frozenset(penalties.failing),
            dict(self._feedback.shares) if self.rule.policy == "feedback" else {},
        )

    def _told(self) -> dict[str, tuple[float, str]]:
        """Return penalties as they are applied, with reasons."""
        found = {}
        for name, left in self.penalties.multipliers.items():
            why = self.penalties.reasons.get(name, "")
            if name in self._lifted:
                found[name] = (1.0, f"{why or 'on its way back'}; lifted, there is no room elsewhere")
            elif left < 1:
                found[name] = (left, why)
        return found

    def _planned(self, fleet: Fleet, seen: dict[str, Seen]) -> Solution:
        """Solve for the fleet as it should be, then keep penalised engines to a part of what they got."""
        whole = solve(fleet, self._before)
        # What was seen was seen under the plan in force, or, as front ends report before they take a new one,
        # under the one before: engines that took over a slow one's load are as slow as they should be. Who
        # answers more than was planned for, as demand has risen, is slower too, and does well.
        loads = np.max([*(self._planned_loads or [whole.routing.loads]), self._answered], axis=0)
        left = self.penalties.update(self._healths(fleet, loads, seen))
        self._lifted = set()
        lifted: set[str] = set()
        while held := {name for name, part in left.items() if part < 1 and name not in lifted}:
            found = solve(_held(fleet, whole.routing, left, held), self._before)
            # Panic rule: a penalty is for the good of requests; none is turned away for its sake, unless it
            # would fail where it would be sent.
            worse = found.routing.shed > whole.routing.shed + 1e-6 * np.maximum(1.0, fleet.rates)
            if not worse.any():
                return found
            reach = fleet.eligible[worse].any(axis=0)
            reached = zip(fleet.engines, np.atleast_1d(reach), strict=True)
            freed = {engine.name for engine, there in reached if there} & (held - self.penalties.failing)
            if not freed:
                return found
            lifted |= freed
            self._lifted = lifted
        return whole

    def _fed_back(self, fleet: Fleet, seen: dict[str, Seen]) -> Routing:
        """Move shares towards engines that answer faster, the same for every front end; no penalties."""
        shares = self._feedback.update({name: one.mean_s for name, one in seen.items()})
        weights = fleet.eligible * np.array([shares[engine.name] for engine in fleet.engines])
        sums = weights.sum(axis=1, keepdims=True)
        weights = np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)
        return Routing(fleet, weights * fleet.rates[:, None], np.where(sums[:, 0] > 0, 0.0, fleet.rates))

    def _seen(self, fleet: Fleet, engine: str, now: float) -> Seen:
        """Return what all front ends saw of an engine, less the time on the network."""
        j = next(j for j, one in enumerate(fleet.engines) if one.name == engine)
        network = {d.front_end: fleet.network_s[i, j] for i, d in enumerate(fleet.demands)}
        found = Seen()
        for front_end, seen in self.inputs.seen(engine, now):
            away = 0.0 if math.isnan(network[front_end]) else float(network[front_end])
            found += replace(
                seen,
                seconds=max(0.0, seen.seconds - away * seen.answers),
                waited_s=max(0.0, seen.waited_s - away * seen.waiting),
                given_up_s=max(0.0, seen.given_up_s - away * seen.given_up),
            )
        return found

    @staticmethod
    def _healths(fleet: Fleet, loads: NDArray[np.float64], seen: dict[str, Seen]) -> dict[str, Health]:
        """Return how each engine does against what its model expects at the load that it has."""
        found = {}
        for engine, load in zip(fleet.engines, loads, strict=True):
            # An idle engine's expectation is that of a trickle; at its limit there is none.
            at = min(max(float(load), 1e-3 * engine.limit), NEAR * engine.limit)
            expected = engine.total(at) / at if at > 0 else math.inf
            found[engine.name] = Health.of(seen[engine.name], expected)
        return found


def _held(fleet: Fleet, whole: Routing, left: dict[str, float], held: set[str]) -> Fleet:
    """Return the fleet with penalised engines held at their part of the load that they would get."""
    loads = zip(fleet.engines, whole.loads.tolist(), strict=True)
    return replace(
        fleet,
        engines=tuple(
            replace(engine, at_most=left[engine.name] * load) if engine.name in held else engine
            for engine, load in loads
        ),
    )
