"""Forked jobs in virtual time: Poisson arrivals, service times drawn from a law, several runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from parm_ray.sim.forks.events import Run
from parm_ray.sim.forks.lockstep import lockstep
from parm_ray.sim.forks.strategy import Forking
from parm_ray.stats import Interval
from parm_ray.stats.copies import Service, draw_copies

Times = NDArray[np.float64]

# Numbers drawn at once: enough that drawing costs little per job, few enough to stay in the cache.
DRAWS = 1 << 18


@dataclass(frozen=True)
class ForkRuns:
    """What independent runs gave, in the order of arrival; the jobs of the warm-up are left out.

    latency_s: seconds from arrival to the need-th finish, `[runs, jobs]`. cost_s: seconds of all servers
    that the job took, cancelling included, `[runs, jobs]`. hedged: share of jobs that were forked twice.
    """

    latency_s: Times
    cost_s: Times
    hedged: float = 0.0

    def mean(self, values: Times, level: float = 0.95) -> tuple[float, Interval]:
        """Return the mean of `values` `[runs, jobs]` and its interval at confidence `level`.

        Jobs of a run depend on one another, runs do not: the interval is Student's over the runs' means.
        Raises ValueError for a single run.
        """
        of_runs = values.mean(axis=1)
        if len(of_runs) < 2:
            raise ValueError("runs: expected >= 2 for an interval, got 1")
        half = student.ppf((1 + level) / 2, len(of_runs) - 1) * of_runs.std(ddof=1) / math.sqrt(len(of_runs))
        middle = float(of_runs.mean())
        return middle, Interval(middle - float(half), middle + float(half))


def simulate_forks(
    strategy: Forking,
    x: Service,
    rate: float,
    rng: np.random.Generator,
    *,
    jobs: int,
    runs: int = 64,
    warm_up: int | None = None,
) -> ForkRuns:
    """Simulate `runs` runs of `jobs` jobs that come at `rate` per second, all servers together.

    x: the service times of a job's copies. warm_up: jobs before these, from an empty system, that are not
    counted; None = a fifth of `jobs`. More runs at the same number of jobs in all take less time and see less
    of long queues. Unstable settings are simulated, too: their latency grows with `jobs`. Raises ValueError
    for a rate that is not positive and finite, and for jobs, runs or warm_up out of range.
    """
    if not (math.isfinite(rate) and rate > 0):
        raise ValueError(f"rate: expected jobs per second > 0, got {rate!r}")
    if jobs < 1 or runs < 1:
        raise ValueError(f"jobs, runs: expected >= 1, got {jobs}, {runs}")
    before = jobs // 5 if warm_up is None else warm_up
    if before < 0:
        raise ValueError(f"warm_up: expected >= 0, got {before}")
    total = before + jobs
    if strategy.hedge_s is None:
        latency, cost = _all_runs(strategy, x, rate, rng, total, runs)
        return ForkRuns(latency[:, before:], cost[:, before:])
    found = [_one_run(strategy, x, rate, rng, total) for _ in range(runs)]
    hedged = float(np.mean([run.hedged[before:] for run in found]))
    latency = np.array([run.latency[before:] for run in found])
    cost = np.array([run.cost[before:] for run in found])
    return ForkRuns(latency, cost, hedged)


def _all_runs(
    strategy: Forking, x: Service, rate: float, rng: np.random.Generator, jobs: int, runs: int
) -> tuple[Times, Times]:
    latency, cost = np.empty((jobs, runs)), np.empty((jobs, runs))
    free = np.zeros((runs, strategy.servers))
    now = np.zeros(runs)
    step = max(1, DRAWS // (runs * strategy.fork))
    for begin in range(0, jobs, step):
        n = min(step, jobs - begin)
        arrivals = now + np.cumsum(rng.exponential(1 / rate, (n, runs)), axis=0)
        service = draw_copies(x, rng, (n, runs), strategy.keep)
        servers = None if strategy.forks_to_all else choose(strategy, rng, (n, runs))[..., : strategy.fork]
        part = slice(begin, begin + n)
        latency[part], cost[part] = lockstep(strategy, arrivals, service, servers, free)
        # Times count from the last arrival, so that they keep their digits in long runs.
        now = np.zeros(runs)
        free -= arrivals[-1][:, None]
    return latency.T, cost.T


def _one_run(strategy: Forking, x: Service, rate: float, rng: np.random.Generator, jobs: int) -> Run:
    arrivals = np.cumsum(rng.exponential(1 / rate, jobs))
    copies = 2 * (strategy.keep if strategy.forks_to_all else strategy.fork)
    service = draw_copies(x, rng, (jobs,), copies)
    servers = None if strategy.forks_to_all else choose(strategy, rng, (jobs,)).tolist()
    run = Run(strategy, arrivals.tolist(), service.tolist(), servers)
    run.serve()
    return run


def choose(strategy: Forking, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.intp]:
    """Return all servers in the order in which a job takes them, `[*shape, servers]`."""
    if strategy.choice == "random":
        return rng.random((*shape, strategy.servers)).argsort(axis=-1)
    groups = strategy.servers // strategy.fork
    order = rng.random((*shape, groups)).argsort(axis=-1)
    members = order[..., None] * strategy.fork + np.arange(strategy.fork)
    return members.reshape(*shape, strategy.servers)
