"""What a plan does to a workload, by simulation of the code that serves: the group machine and its queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parm_ray.advisor.candidates import Candidate
from parm_ray.advisor.workload import Workload
from parm_ray.codes import make_code
from parm_ray.core import CallId, CallKind, Outcome
from parm_ray.groups.lanes import DEPLOYED, Lane
from parm_ray.sim import Costs, PoolSpec, Simulated, simulate
from parm_ray.stats.copies import draw_copies, resampled
from parm_ray.workload import poisson

Seconds = NDArray[np.float64]

# Of the queries, so many at the beginning are left out: the system starts empty.
WARM_UP = 0.1

# Calls of one job that may differ: eight copies at once, and two hedges. All beyond are as long as the last.
COPIES = 10

# A run has so many queries per replica at least: a large pool takes some time to fill.
PER_REPLICA = 20


@dataclass(frozen=True, slots=True)
class Task:
    """One run: a plan for a workload at `rate` queries per second; `queries` of them, for large pools more.

    The same seed gives every plan the same arrivals, and the same service time to the same copy of the same
    query.
    """

    candidate: Candidate
    workload: Workload
    rate: float
    queries: int
    seed: int


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a run.

    latency_s: of each query after the warm-up, `[n]`. load: server seconds that had to be worked off by the
    deployed replicas, as a share of what they have between the first arrival and the last; 1 and more: the
    queue grows as long as queries come. work_s: server seconds per query, all pools. reconstructed: share of
    the queries that the parity model answered. sample: which resample of the measured times it had; None = a
    law was given.
    """

    latency_s: Seconds
    load: float
    work_s: float
    reconstructed: float
    sample: int | None = None


Map = Callable[[Callable[[Task], Trial], Iterable[Task]], Iterator[Trial]]
"""Like the built-in `map` of one iterable."""


class JobTimes:
    """How long calls take by what they are for, wherever they run: the m-th copy of the j-th query.

    Where service times were measured, runs draw from resamples of them (bootstrap), two runs from each: so
    what differs between runs is what chance, and what the sample's size leave open, see `measured`.
    """

    def __init__(self, workload: Workload, jobs: int, seed: int, slowdown: float = 1.0) -> None:
        rng = np.random.default_rng([seed, 2])
        x = resampled(workload.service, np.random.default_rng([sample_of(seed), 5]))
        self.of_law = x is workload.service
        self._of_job: list[list[float]] = draw_copies(x, rng, (jobs,), COPIES).tolist()
        parity = np.random.default_rng([seed, 3])
        self._of_group = (slowdown * draw_copies(x, parity, (jobs,), 1)[:, 0]).tolist()
        self._jobs: dict[tuple[int, int], int] = {}
        self._groups: dict[int, int] = {}

    def came(self, call: CallId) -> None:
        """A call was sent: queries are numbered as they come, whichever plan they come under."""
        if call.kind is CallKind.DATA:
            self._jobs.setdefault((call.group, call.place), len(self._jobs))

    def __call__(self, server: str, number: int, at: float, call: CallId) -> float:
        """Return seconds of service, see `sim.Service`."""
        if call.kind is CallKind.PARITY:
            group = self._groups.setdefault(call.group, len(self._groups))
            return self._of_group[group]
        job = self._jobs[call.group, call.place]
        copy = min(call.attempt + 1, COPIES - 1) if call.kind is CallKind.COPY else 0
        return self._of_job[job][copy]


def sample_of(seed: int) -> int:
    """Which resample a run has."""
    return seed // 2


def run(task: Task) -> Trial:
    """Simulate it."""
    candidate, workload = task.candidate, task.workload
    queries = max(task.queries, PER_REPLICA * workload.replicas)
    arrivals = poisson(task.rate, np.random.default_rng([task.seed, 1]), n=queries)
    offer = candidate.offer
    times = JobTimes(workload, queries, task.seed, offer.slowdown if offer else 1.0)
    plan = candidate.plan
    found = simulate(
        plan,
        _pools(candidate, workload, times),
        arrivals,
        code=make_code(offer.encoder, offer.decoder, plan.k, plan.r) if offer else None,
        costs=Costs(cancel_s=workload.losers.cancel_s),
        seed=task.seed,
    )
    sample = None if times.of_law else sample_of(task.seed)
    return _trial(found, candidate, int(WARM_UP * queries), sample)


def _pools(candidate: Candidate, workload: Workload, times: JobTimes) -> list[PoolSpec]:
    rows: tuple[Lane, ...] = tuple(range(candidate.plan.r))
    servers = [f"deployed/{i}" for i in range(candidate.deployed)]
    discipline = workload.discipline
    if candidate.shared:
        reserve = candidate.plan.idle_reserve
        lanes = (DEPLOYED, *rows)
        return [PoolSpec(servers, lanes, times, discipline, low=rows, reserve=reserve, on_push=times.came)]
    parity = [f"parity/{i}" for i in range(candidate.parity)]
    return [
        PoolSpec(servers, (DEPLOYED,), times, discipline, on_push=times.came),
        *(PoolSpec(parity, (row,), times, discipline) for row in rows),
    ]


def _trial(found: Simulated, candidate: Candidate, skip: int, sample: int | None) -> Trial:
    span = float(found.planned[-1] - found.planned[0])
    return Trial(
        latency_s=found.latency[skip:],
        load=found.busy_s[DEPLOYED] / (candidate.deployed * span),
        work_s=sum(found.busy_s.values()) / len(found.planned),
        reconstructed=found.share(Outcome.RECONSTRUCTED, skip),
        sample=sample,
    )
