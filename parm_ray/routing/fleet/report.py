"""What a solved plan says: for machines as plain data, for people as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rich.table import Table

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


def table(found: Mapping[str, Any]) -> Table:
    """Return the plans side by side, the optimum first."""
    names = list(found["loads"])
    shown = Table("plan", "network ms", "engines ms", "mean ms", *(f"load {name}" for name in names))
    for name, plan in [("optimum", found), *found["others"].items()]:
        loads = (f"{plan['loads'][engine]:.2f}" for engine in names)
        shown.add_row(name, *(_shown(plan[f"{part}_ms"]) for part in ("network", "engines", "mean")), *loads)
    lines = [
        f"proof: gap {found['gap']:.1e}, KKT residual {found['kkt_residual_ms']:.1e} ms, "
        f"{found['rounds']} linear programs",
        *(f"{demand}: {_row(row)}" for demand, row in found["weights"].items()),
        *(f"binding: {constraint}" for constraint in found["binding"]),
    ]
    shown.caption = "\n".join(lines)
    shown.caption_justify = "left"
    return shown


def _parts(routing: Routing) -> dict[str, float | None]:
    routed = float(routing.flows.sum()) or 1.0
    return {
        "network_ms": _ms(routing.network_total_s / routed),
        "engines_ms": _ms(routing.engine_total_s / routed),
    }


def _row(weights: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.4f}" for name, share in weights.items() if share > 5e-5)


def _ms(seconds: float) -> float | None:
    return 1e3 * seconds if math.isfinite(seconds) else None


def _shown(value: float | None) -> str:
    return "no bound" if value is None else f"{value:.2f}"
