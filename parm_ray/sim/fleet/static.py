"""A fixed plan in virtual time, by arrays: millions of requests a second, for the mean of a plan."""

from __future__ import annotations

import heapq
import math

import numpy as np
from numpy.typing import NDArray

from parm_ray.routing.fleet import Routing
from parm_ray.sim.fleet.setting import servers_of

Array = NDArray[np.float64]


def simulate_routing(
    routing: Routing, requests: int, seed: int = 0, warm_up: float = 0.1
) -> tuple[float, float]:
    """Return the mean latency of a plan and its standard error, seconds; inf where an engine is overwhelmed.

    Each route's arrivals are Poisson, so the streams at an engine together are, too, whatever the network
    adds. requests: in all; the first share `warm_up` of the time is left out, as queues are empty then. The
    error is that of the means of 20 equal spans of time.
    """
    fleet, rng = routing.fleet, np.random.default_rng(seed)
    total = float(routing.flows.sum())
    if not total:
        return 0.0, 0.0
    if any(load >= e.limit for e, load in zip(fleet.engines, routing.loads, strict=True) if load > 0):
        return math.inf, math.inf
    span = requests / total
    edges = np.linspace(warm_up * span, span, 21)
    sums, counts = np.zeros(20), np.zeros(20)
    for j, engine in enumerate(fleet.engines):
        rows = np.flatnonzero(routing.flows[:, j] > 0)
        if not len(rows):
            continue
        streams = [_poisson(rng, float(routing.flows[i, j]), span) for i in rows]
        away = np.concatenate(
            [np.full(len(one), fleet.network_s[i, j]) for i, one in zip(rows, streams, strict=True)]
        )
        at = np.concatenate(streams)
        order = np.argsort(at)
        at, away = at[order], away[order]
        servers, mean, cv2 = servers_of(engine)
        latency = _sojourn(at, _service(rng, mean, cv2, len(at)), servers) + away
        spot = np.searchsorted(edges, at, side="right") - 1
        inside = (spot >= 0) & (spot < 20)
        sums += np.bincount(spot[inside], latency[inside], 20)
        counts += np.bincount(spot[inside], minlength=20)
    means = sums / np.maximum(counts, 1)
    return float(sums.sum() / counts.sum()), float(means.std(ddof=1) / math.sqrt(20))


def _poisson(rng: np.random.Generator, rate: float, span: float) -> Array:
    return np.sort(rng.uniform(0, span, rng.poisson(rate * span)))


def _service(rng: np.random.Generator, mean: float, cv2: float, n: int) -> Array:
    if cv2 == 0:
        return np.full(n, mean)
    return rng.gamma(1 / cv2, mean * cv2, n)


def _sojourn(at: Array, service: Array, servers: int) -> Array:
    """Return waiting and service of each call, first come, first served."""
    if servers == 1:
        # Lindley: a call leaves at the largest, over all earlier ones, of arrival plus the work since.
        work = np.cumsum(service)
        leaves: Array = work + np.maximum.accumulate(at - (work - service))
        return leaves - at
    free = [0.0] * servers
    out = np.empty(len(at))
    for i, (arrives, takes) in enumerate(zip(at.tolist(), service.tolist(), strict=True)):
        start = max(arrives, heapq.heappop(free))
        heapq.heappush(free, start + takes)
        out[i] = start + takes - arrives
    return out
