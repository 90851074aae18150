"""The advice at other loads: of no redundancy, and the best plan of each kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from parm_ray.advisor.advice import AtLoad
from parm_ray.advisor.candidates import Candidate
from parm_ray.advisor.feasible import refusal
from parm_ray.advisor.headroom import Headroom, times_of
from parm_ray.advisor.measured import Measured
from parm_ray.advisor.objective import Objective
from parm_ray.advisor.oracle import Map, Task, run
from parm_ray.advisor.race import Effort
from parm_ray.advisor.workload import Limits, Workload

# Plans beside no redundancy, so many at most.
MOST = 4

# Few queries are simulated at each load: plans closer to each other than this are as good.
TIE = 0.05

SEEDS = 2_000_000


def advice_by_load(
    measured: Sequence[Measured],
    workload: Workload,
    objective: Objective,
    limits: Limits,
    effort: Effort,
    seed: int,
    spread: Map,
) -> list[AtLoad]:
    """Return it at each of the effort's loads. measured: plans at the workload's own, no redundancy first."""
    near = objective.coarse(effort.load_queries)
    tried = [measured[0].candidate, *_best_of_each_kind(measured[1:], near)]
    rates = [load * workload.replicas / workload.service.mean for load in effort.loads]
    tasks = [
        Task(plan, workload, rate, effort.load_queries, SEEDS + seed) for rate in rates for plan in tried
    ]
    trials = iter(list(spread(run, tasks)))
    found = []
    for load, rate in zip(effort.loads, rates, strict=True):
        there = replace(workload, rate=rate)
        here = [Measured(plan, [next(trials)]) for plan in tried]
        able = [one for one in here if not refusal(one, here[0], there, limits)]
        headroom = Headroom(there, times_of(there, limits), effort.load_queries, spread, seed, runs=1)
        while True:
            least = min(one.of(near) for one in able)
            ties = [one for one in able if one.of(near) <= least * (1 + TIE)]
            best = min(ties, key=lambda one: one.candidate.complexity)
            if headroom.bears([best.candidate])[0]:
                break
            able.remove(best)
        may = {one.candidate.name for one in able}
        scores = {one.candidate.name: one.of(near) if one.candidate.name in may else None for one in here}
        found.append(AtLoad(load, rate, best.candidate.name, scores))
    return found


def _best_of_each_kind(measured: Sequence[Measured], near: Objective) -> list[Candidate]:
    kinds: dict[tuple[str, bool, bool], Candidate] = {}
    for one in sorted(measured, key=lambda one: (-len(one.trials), one.of(near))):
        plan = one.candidate.plan
        kinds.setdefault((plan.kind, one.candidate.shared, bool(plan.hedge)), one.candidate)
    return list(kinds.values())[:MOST]
