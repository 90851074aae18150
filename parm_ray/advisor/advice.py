"""What the adviser says: plans in order of preference, with figures, intervals and reasons."""

from __future__ import annotations

from dataclasses import dataclass

from parm_ray.advisor.candidates import Candidate
from parm_ray.advisor.evidence import Evidence
from parm_ray.advisor.objective import Objective
from parm_ray.advisor.workload import Limits, Workload
from parm_ray.redundancy import RedundancyPlan
from parm_ray.stats import Interval


@dataclass(frozen=True, slots=True)
class Ranked:
    """One plan and what it is predicted to do. Latencies in seconds from arrival to answer.

    objective_s, interval: what was to be made small, and its 95 % interval; over_none: an interval of its
    ratio to no redundancy's in the same runs; both None where runs were few. p50_s, p99_s, p999_s: None where
    neither the runs nor the sample tell.
    load: busy share of the deployed replicas, their parity work left out. work_s: server seconds per query;
    extra_work: beyond those of no redundancy, as a share. reconstructed: share of answers from the parity
    model; accuracy_loss: of all answers, None = not known. queries: simulated ones that this rests on. tail:
    points (seconds, share of queries that are later), for a plot.
    refused: why the plan cannot be advised; "" = it could. reason: why it stands where it does.
    """

    candidate: Candidate
    objective_s: float
    interval: Interval | None
    over_none: Interval | None
    mean_s: float
    p50_s: float
    p99_s: float | None
    p999_s: float | None
    load: float
    work_s: float
    extra_work: float
    reconstructed: float
    accuracy_loss: float | None
    queries: int
    tail: tuple[tuple[float, float], ...] = ()
    refused: str = ""
    reason: str = ""

    @property
    def name(self) -> str:
        """The plan in short."""
        return self.candidate.name

    @property
    def plan(self) -> RedundancyPlan:
        """As the server takes it."""
        return self.candidate.plan


@dataclass(frozen=True, slots=True)
class AtLoad:
    """The advice at another load (share of the replicas' time without redundancy; rate in queries/s).

    objective_s: of each plan that was tried there, seconds; None where it may not be advised.
    """

    load: float
    rate: float
    best: str
    objective_s: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Unsimulated:
    """A plan that needs no simulation to be refused."""

    candidate: Candidate
    refused: str


@dataclass(frozen=True)
class Advice:
    """What to run for a workload, and why.

    ranked: simulated plans, those that may be advised first, the advised one in front; then the refused.
    unsimulated: plans that were refused before. by_load: ascending. warnings: what the advice takes for
    granted, in words.
    """

    workload: Workload
    objective: Objective
    limits: Limits
    ranked: tuple[Ranked, ...]
    unsimulated: tuple[Unsimulated, ...]
    by_load: tuple[AtLoad, ...]
    evidence: Evidence
    warnings: tuple[str, ...]

    @property
    def best(self) -> Ranked:
        """What to run."""
        return self.ranked[0]

    @property
    def runner_up(self) -> Ranked | None:
        """What to run if that is not possible."""
        return next((one for one in self.ranked[1:] if not one.refused), None)

    @property
    def none(self) -> Ranked:
        """No redundancy, which everything is compared with."""
        return next(one for one in self.ranked if one.plan.kind == "none")

    @property
    def changes_at(self) -> tuple[tuple[float, str], ...]:
        """Loads from which on another plan is best, and which."""
        return tuple(
            (after.load, after.best)
            for before, after in zip(self.by_load, self.by_load[1:], strict=False)
            if after.best != before.best
        )
