"""Many independent runs at once, job by job, without a list of events.

First come, first served: what a job finds depends on earlier jobs alone, and how those end is known as soon
as they have come. So a job needs of each server one number, the time at which it is free of all earlier jobs,
and the j-th jobs of all runs are one step of array arithmetic. Hedges break this (a copy sent later
stands behind jobs that came after its own), see `events`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parm_ray.sim.forks.strategy import Forking

Times = NDArray[np.float64]


def lockstep(
    strategy: Forking, arrivals: Times, service: Times, servers: NDArray[np.intp] | None, free: Times
) -> tuple[Times, Times]:
    """Serve jobs in the order of their arrival; return latency and server seconds, `[jobs, runs]` each.

    arrivals: `[jobs, runs]` seconds, ascending in each run. service: `[jobs, runs, keep]`, the time of the
    m-th copy of a job to start (of its m-th server, where all copies are kept). servers: which each job is
    forked to, `[jobs, runs, fork]`; None = to all. free: `[runs, servers]`, when each server is free; brought
    up to date in place, so that the next call goes on from there.
    """
    rows = np.arange(len(free))[:, None]
    keep, need, cancel = strategy.keep, strategy.need, strategy.cancel
    latency, cost = np.empty(arrivals.shape), np.empty(arrivals.shape)
    for job in range(len(arrivals)):
        # Where all servers take part there is nothing to pick: the array is used as it is.
        at = None if servers is None else servers[job]
        before = free if at is None else free[rows, at]
        start = np.maximum(before, arrivals[job][:, None])
        if keep < start.shape[1]:
            first = np.argsort(start, axis=1, kind="stable")[:, :keep]
            at = first if at is None else np.take_along_axis(at, first, 1)
            start, before = np.take_along_axis(start, first, 1), np.take_along_axis(before, first, 1)
        end = start + service[job]
        if need == 1:
            done = end.min(axis=1, keepdims=True)
        else:
            done = np.partition(end, need - 1, axis=1)[:, need - 1 : need]
        leaves = np.where(end > done, done + strategy.cancel_s, end) if cancel == "all" else end
        spent = leaves - start
        if cancel != "none" and keep > 1:
            # A copy that would start after the job is done never starts: its server is free as before.
            begun = start < done
            leaves, spent = np.where(begun, leaves, before), np.where(begun, spent, 0.0)
        if at is None:
            free[...] = leaves
        else:
            free[rows, at] = leaves
        latency[job] = done[:, 0] - arrivals[job]
        cost[job] = spent.sum(axis=1)
    return latency, cost
