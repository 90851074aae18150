"""Many plans, little time: all are simulated a little, the better ones more, the best ones much.

Successive halving (Karnin, Koren and Somekh, "Almost optimal exploration in multi-armed bandits", ICML 2013)
with the same seeds for all plans (common random numbers): what chance does to one it does to the others, so
that differences are known sooner than the figures themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from parm_ray.advisor.candidates import Candidate
from parm_ray.advisor.measured import Measured
from parm_ray.advisor.objective import Objective
from parm_ray.advisor.oracle import Task, Trial, run
from parm_ray.advisor.workload import Workload

Map = Callable[[Callable[[Task], Trial], Iterable[Task]], Iterator[Trial]]


@dataclass(frozen=True, slots=True)
class Round:
    """One round: so many new runs of so many queries for each of the best `plans` of the round before."""

    runs: int
    queries: int
    plans: int = 1000


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is simulated.

    rounds: of the race. loads: shares of the replicas' time at which the advice is looked at, beside that
    asked for; load_queries: of one run there.
    """

    rounds: tuple[Round, ...]
    loads: tuple[float, ...]
    load_queries: int

    def __post_init__(self) -> None:
        if not self.rounds or any(r.runs < 1 or r.queries < 100 or r.plans < 1 for r in self.rounds):
            raise ValueError("rounds: expected at least one, of runs >= 1, queries >= 100 and plans >= 1")


QUICK = Effort((Round(2, 1000), Round(2, 2000, 8), Round(6, 2500, 3)), (0.2, 0.4, 0.6, 0.8), 1500)
NORMAL = Effort(
    (Round(2, 2000), Round(4, 4000, 10), Round(10, 8000, 5)), (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8), 5000
)
THOROUGH = Effort(
    (Round(4, 5000), Round(8, 10_000, 12), Round(12, 25_000, 6)),
    (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    20_000,
)
EFFORTS = {"quick": QUICK, "normal": NORMAL, "thorough": THOROUGH}


def race(
    plans: Sequence[Candidate],
    workload: Workload,
    objective: Objective,
    rounds: Sequence[Round],
    spread: Map,
    admits: Callable[[Measured, Measured], bool],
    seed: int = 0,
) -> list[Measured]:
    """Return every plan with the runs that it got, in the order of `plans`.

    The first plan is measured to the end: the others are compared with it. admits: whether a plan may go on
    at all, given its runs and those of the first plan; it is asked after each round. spread: like the
    built-in `map`.
    """
    all_plans = [Measured(plan) for plan in plans]
    left, seeds = list(all_plans), 0
    for each in rounds:
        if seeds:
            left = _best(left, all_plans[0], each.plans, objective, admits)
        tasks = [
            Task(one.candidate, workload, workload.rate, each.queries, seed + seeds + n)
            for one in left
            for n in range(each.runs)
        ]
        seeds += each.runs
        found = iter(list(spread(run, tasks)))
        for one in left:
            one.trials += [next(found) for _ in range(each.runs)]
    return all_plans


def _best(
    plans: list[Measured],
    first: Measured,
    most: int,
    objective: Objective,
    admits: Callable[[Measured, Measured], bool],
) -> list[Measured]:
    # Of few queries a far percentile is an accident: a nearer one tells more.
    near = objective.coarse(len(first.latencies))
    fit = sorted((one for one in plans if admits(one, first)), key=lambda one: one.of(near))
    kept = {id(one) for one in (first, *fit[:most])}
    return [one for one in plans if id(one) in kept]
