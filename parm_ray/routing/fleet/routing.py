"""A plan for a fleet, what it costs, and the plans that people use without an optimizer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parm_ray.routing.fleet.problem import Fleet


@dataclass(frozen=True)
class Routing:
    """Who sends how much where.

    flows: `[demands, engines]`, requests per second; shed: `[demands]`, those dropped at the door.
    """

    fleet: Fleet
    flows: NDArray[np.float64]
    shed: NDArray[np.float64]

    @property
    def loads(self) -> NDArray[np.float64]:
        """Requests per second that each engine gets, `[engines]`."""
        return self.flows.sum(axis=0)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Of what a demand sends, the share of each engine; a row without traffic is all zeros."""
        sums = self.flows.sum(axis=1, keepdims=True)
        return np.divide(self.flows, sums, out=np.zeros_like(self.flows), where=sums > 0)

    @property
    def network_total_s(self) -> float:
        """Seconds on the network per second, over all requests."""
        used = self.flows > 0
        return float((self.flows[used] * self.fleet.network_s[used]).sum())

    @property
    def engine_total_s(self) -> float:
        """Seconds at engines per second, over all requests; inf where an engine is at its limit."""
        return math.fsum(
            engine.total(load) for engine, load in zip(self.fleet.engines, self.loads, strict=True)
        )

    @property
    def mean_s(self) -> float:
        """Expected end-to-end latency of a request that is not shed, seconds."""
        routed = float(self.flows.sum())
        return (self.network_total_s + self.engine_total_s) / routed if routed else 0.0


def baselines(fleet: Fleet) -> dict[str, Routing]:
    """Return what is usual: the nearest engine, all alike, and in proportion to capacity; nothing is shed."""
    eligible, rates = fleet.eligible, fleet.rates
    near = np.where(eligible, fleet.network_s, np.inf)
    nearest = np.zeros(near.shape)
    reach = eligible.any(axis=1)
    nearest[np.flatnonzero(reach), near[reach].argmin(axis=1)] = 1.0
    capacity = np.array([engine.limit for engine in fleet.engines])
    shares = {
        "nearest": nearest,
        "round_robin": _rows(eligible.astype(float)),
        "capacity_proportional": _rows(eligible * capacity),
    }
    return {
        name: Routing(fleet, share * rates[:, None], np.where(reach, 0.0, rates))
        for name, share in shares.items()
    }


def _rows(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)
