"""The plan in force against what is advised: in the same simulated runs, on the pools that there are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from parm_ray.advisor.auto import Comparison, Rival
from parm_ray.advisor.candidates import NEVER_S, Candidate
from parm_ray.advisor.feasible import refusal
from parm_ray.advisor.headroom import Headroom, times_of
from parm_ray.advisor.objective import Objective
from parm_ray.advisor.observed import Seen
from parm_ray.advisor.race import QUICK, Effort, Map, Round, race
from parm_ray.advisor.search import advise
from parm_ray.advisor.workload import Limits, Workload
from parm_ray.redundancy import RedundancyPlan
from parm_ray.stats.trust import LEAST

# An advice every half minute: other loads than the present one are not looked at.
EFFORT = Effort(QUICK.rounds, (), QUICK.load_queries)

# What the plan in force and the advised ones run together, with seeds of their own.
TOGETHER = Round(10, 2500)
SEEDS = 5_000_000

LOOSER = 1.2
"""By what factor the plan in force may exceed limits of work and accuracy."""


@dataclass(frozen=True, slots=True)
class Contest:
    """found: how the plans compare. objective: by what, the nearest to the wanted one that times tell."""

    found: Comparison
    objective: Objective


def contest(
    seen: Seen,
    in_force: RedundancyPlan,
    objective: Objective,
    limits: Limits,
    *,
    again: RedundancyPlan | None = None,
    effort: Effort = EFFORT,
    together: Round = TOGETHER,
    seed: int = 0,
    spread: Map = map,
) -> Contest:
    """Ask for advice and compare it with the plan in force, and with `again`, which won last time.

    The advised plans have the server's pools. Raises ValueError where too little was observed.
    """
    objective = objective.coarse(seen.calls)
    pairs = seen.pairs if seen.pairs is not None and len(seen.pairs) >= LEAST else None
    advice = advise(seen.workload, objective, limits, pairs=pairs, effort=effort, seed=seed, spread=spread)
    workload, objective = advice.workload, advice.objective
    # The seeds of one contest are not those of the next: a second look has to be one.
    first_seed = SEEDS + 1000 * seed
    mine = _candidate(in_force, workload)
    plans = [advice.best.candidate]
    if again is not None and again.name != advice.best.plan.name:
        waiting = _candidate(again, workload)
        if _bears(waiting, workload, times_of(workload, limits), together, first_seed, spread):
            plans.append(waiting)
    plans = [one for one in plans if _same(one.plan) != mine.plan]
    nothing = _candidate(RedundancyPlan(), workload)
    none, first, *others = race([nothing, mine, *plans], workload, objective, (together,), spread, first_seed)
    refused = refusal(first, none, workload, _loosened(limits, mine))
    # A plan in force has to bear a little less than one that is changed to.
    times = times_of(workload, limits) / LOOSER
    if not refused and not _bears(mine, workload, times, together, first_seed, spread):
        refused = f"would not be stable at {times:.3g} times the rate"
    rivals = tuple(
        Rival(one.candidate.plan, one.of(objective) / first.of(objective), ratio)
        for one in others
        if (ratio := one.ratio(first, objective)) is not None and not refusal(one, none, workload, limits)
    )
    return Contest(Comparison(rivals, refused), objective)


def _bears(
    plan: Candidate, workload: Workload, times: float, together: Round, seed: int, spread: Map
) -> bool:
    return Headroom(workload, times, together.queries, spread, seed).bears([plan])[0]


def _loosened(limits: Limits, mine: Candidate) -> Limits:
    """What the plan in force may cost: a little more, lest one at the limit is left and taken up in turns.

    What its reconstructions cost has to be known before it is advised, not while it is finding that out.
    """
    loss = limits.accuracy_loss
    if loss is not None:
        known = mine.offer is None or mine.offer.accuracy_loss is not None
        loss = min(1.0, LOOSER * loss) if known else None
    return replace(limits, extra_work=LOOSER * limits.extra_work, accuracy_loss=loss)


def _same(plan: RedundancyPlan) -> RedundancyPlan:
    """The plan without what is the server's own, see `serve.plan_change`."""
    return replace(plan, kind="none" if plan.kind == "default" else plan.kind, deadline_s=NEVER_S,
                   has_default=False, crash_retries=1)  # fmt: skip


def _candidate(plan: RedundancyPlan, workload: Workload) -> Candidate:
    plan, pool = _same(plan), workload.parity_pool or 0
    if not plan.coded:
        return Candidate(plan.name, plan, workload.replicas)
    return Candidate(plan.name, plan, workload.replicas, pool, not pool, workload.parities[0])
