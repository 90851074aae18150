"""What a solved plan says, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from parm_ray.routing.fleet.routing import Routing
from parm_ray.routing.fleet.solve import Solution


def report(solution: Solution, others: Mapping[str, Routing]) -> dict[str, Any]:
    """Return objective, flows, weights, proof, and the usual plans; times in milliseconds, loads per second.

    A latency without bound is null.
    """
    fleet, routing = solution.routing.fleet, solution.routing
    names = [engine.name for engine in fleet.engines]
    weights = [dict(zip(names, row, strict=True)) for row in routing.weights.tolist()]
    return {
        "mean_ms": _ms(routing.mean_s),
        **_parts(routing),
        "objective": solution.objective_s,
        "bound": solution.bound_s,
        "gap": solution.gap,
        "kkt_residual_ms": 1e3 * solution.kkt_s,
        "optimal": solution.optimal,
        "rounds": solution.rounds,
        "binding": solution.binding,
        "loads": dict(zip(names, routing.loads.tolist(), strict=True)),
        "prices_ms": {n: _ms(p) for n, p in zip(names, solution.prices.tolist(), strict=True)},
        "weights": {str(demand): row for demand, row in zip(fleet.demands, weights, strict=True)},
        "shed": {str(d): s for d, s in zip(fleet.demands, routing.shed.tolist(), strict=True)},
        "others": {
            name: {
                "mean_ms": _ms(other.mean_s),
                **_parts(other),
                "loads": dict(zip(names, other.loads.tolist(), strict=True)),
            }
            for name, other in others.items()
        },
    }


def _parts(routing: Routing) -> dict[str, float | None]:
    routed = float(routing.flows.sum()) or 1.0
    return {
        "network_ms": _ms(routing.network_total_s / routed),
        "engines_ms": _ms(routing.engine_total_s / routed),
    }


def _ms(seconds: float) -> float | None:
    return 1e3 * seconds if math.isfinite(seconds) else None
