"""Whether a plan is stable with headroom: at more than the rate that was asked about."""

from __future__ import annotations

from dataclasses import dataclass, field

from parm_ray.advisor.candidates import Candidate, no_redundancy
from parm_ray.advisor.feasible import GROWS
from parm_ray.advisor.measured import Measured
from parm_ray.advisor.oracle import Map, Task, run
from parm_ray.advisor.workload import Limits, Workload

# Where the seeds begin.
SEEDS = 1_000_000


def times_of(workload: Workload, limits: Limits) -> float:
    """How many times the rate a plan has to bear: no more than no redundancy does at the limit."""
    return min(limits.headroom, limits.load / workload.utilisation)


@dataclass
class Headroom:
    """times: the rate; queries: of one run, of which each plan has `runs`. loads: at that rate, of the plans
    that were asked, by name.
    """

    workload: Workload
    times: float
    queries: int
    spread: Map
    seed: int = 0
    runs: int = 4
    loads: dict[str, float] = field(default_factory=dict)
    _none: Measured | None = None

    def bears(self, plans: list[Candidate]) -> list[bool]:
        """Whether each plan's queues stay bounded. No redundancy is not asked: there is nothing less."""
        if self.times <= 1:
            return [True] * len(plans)
        new = [one for one in plans if one.plan.kind != "none" and one.name not in self.loads]
        if new:
            asked = [] if self._none is not None else [no_redundancy(self.workload)]
            rate = self.times * self.workload.rate
            seeds = [SEEDS + self.seed + n for n in range(self.runs)]
            tasks = [
                Task(one, self.workload, rate, self.queries, seed) for one in asked + new for seed in seeds
            ]
            found = iter(list(self.spread(run, tasks)))
            measured = [Measured(one, [next(found) for _ in seeds]) for one in asked + new]
            self._none = self._none or measured[0]
            for one in measured[len(asked) :]:
                utilisation = self.times * self.workload.utilisation
                self.loads[one.candidate.name] = one.load(self._none, utilisation)
        return [not self.refused(one) for one in plans]

    def refused(self, plan: Candidate) -> str:
        """Why a plan that was asked cannot be advised; "" = it can, or was not asked."""
        if self.loads.get(plan.name, 0.0) < GROWS:
            return ""
        return f"its queues grow without bound at {self.times:.3g} times the rate"
