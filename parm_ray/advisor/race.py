"""Many plans, little time: all are simulated a little, the better ones more, the best ones much.

Successive halving (Karnin, Koren and Somekh, "Almost optimal exploration in multi-armed bandits", ICML 2013)
with the same seeds for all plans (common random numbers): what chance does to one it does to the others, so
that differences are known sooner than the figures themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from parm_ray.advisor.candidates import Candidate
from parm_ray.advisor.measured import Measured
from parm_ray.advisor.objective import Objective
from parm_ray.advisor.oracle import Map, Task, run
from parm_ray.advisor.workload import Workload

Admits = Callable[[Measured, Measured], bool]
Bears = Callable[[list[Candidate]], list[bool]]

# The best of a race is found if no other plan may be so much better.
SURE = 0.05


@dataclass(frozen=True, slots=True)
class Round:
    """One round: so many new runs of so many queries for each of the best `plans` of the round before."""

    runs: int
    queries: int
    plans: int = 1000


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is simulated.

    rounds: of the race; repeats: how often the last is repeated while it is not clear who has won. loads:
    shares of the replicas' time at which the advice is looked at, beside that asked for; load_queries: of one
    run there.
    """

    rounds: tuple[Round, ...]
    loads: tuple[float, ...]
    load_queries: int
    repeats: int = 0

    def __post_init__(self) -> None:
        if not self.rounds or any(r.runs < 1 or r.queries < 100 or r.plans < 1 for r in self.rounds):
            raise ValueError("rounds: expected at least one, of runs >= 1, queries >= 100 and plans >= 1")


QUICK = Effort((Round(2, 1000), Round(2, 2000, 8), Round(6, 2000, 3)), (0.2, 0.4, 0.6, 0.8), 1500, repeats=2)
NORMAL = Effort(
    (Round(2, 2000), Round(4, 4000, 10), Round(10, 8000, 5)),
    (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
    5000,
    repeats=2,
)
THOROUGH = Effort(
    (Round(4, 5000), Round(8, 10_000, 12), Round(12, 25_000, 6)),
    (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    20_000,
    repeats=3,
)
EFFORTS = {"quick": QUICK, "normal": NORMAL, "thorough": THOROUGH}


def race(
    plans: Sequence[Candidate],
    workload: Workload,
    objective: Objective,
    rounds: Sequence[Round],
    spread: Map,
    seed: int = 0,
    *,
    admits: Admits = lambda one, first: True,
    bears: Bears | None = None,
    repeats: int = 0,
) -> list[Measured]:
    """Return every plan with the runs that it got, in the order of `plans`.

    The first plan is measured to the end: the others are compared with it. admits: whether a plan may go on
    at all, given its runs and those of the first plan; it is asked after each round. bears: the same of plans
    that have come before the last round, for what takes simulations of its own. repeats: how often the last
    round is repeated while the best of its plans may well be `SURE` worse than another. spread: like the
    built-in `map`.
    """
    all_plans = [Measured(plan) for plan in plans]
    first, left = all_plans[0], list(all_plans)
    done = 0

    def run_all(each: Round) -> None:
        nonlocal done
        tasks = [
            Task(one.candidate, workload, workload.rate, each.queries, seed + done + n)
            for one in left
            for n in range(each.runs)
        ]
        found = iter(list(spread(run, tasks)))
        for one in left:
            one.trials += [next(found) for _ in range(each.runs)]
        done += each.runs

    for number, each in enumerate(rounds):
        if number:
            fit = _in_order([one for one in left if admits(one, first)], objective)
            last = number + 1 == len(rounds)
            kept = _bearing(fit, each.plans, bears) if last and bears is not None else fit[: each.plans]
            left = [one for one in all_plans if one is first or any(one is other for other in kept)]
        run_all(each)
    for _ in range(repeats):
        if _sure([one for one in left if admits(one, first)], objective):
            break
        run_all(rounds[-1])
    return all_plans


def _in_order(plans: list[Measured], objective: Objective) -> list[Measured]:
    """The best first, by the objective or, of few queries, a nearer percentile: a far one is an accident."""
    if not plans:
        return []
    near = objective.coarse(len(plans[0].latencies))
    return sorted(plans, key=lambda one: one.of(near))


def _bearing(plans: list[Measured], most: int, bears: Bears) -> list[Measured]:
    """The first `most` that bear it; the others are not asked."""
    kept: list[Measured] = []
    while plans and len(kept) < most:
        asked, plans = plans[: most - len(kept)], plans[most - len(kept) :]
        able = bears([one.candidate for one in asked])
        kept += [one for one, yes in zip(asked, able, strict=True) if yes]
    return kept


def _sure(plans: list[Measured], objective: Objective) -> bool:
    """Whether the best is hardly worse than any other, by the interval of their ratio."""
    if len(plans) < 2:
        return True
    best = min(plans, key=lambda one: one.of(objective))
    ratios = [best.ratio(one, objective) for one in plans if one is not best]
    return all(ratio is not None and ratio.high <= 1 + SURE for ratio in ratios)
