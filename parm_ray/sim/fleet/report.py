"""What a simulated fleet did, as plain data: between one change and the next, and interval by interval."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from parm_ray.sim.fleet.run import FleetResult, Request
from parm_ray.sim.fleet.setting import FleetRun


def phases(run: FleetRun, result: FleetResult) -> list[dict[str, Any]]:
    """Return a row for the time from each change to the next; latencies in milliseconds.

    shed and failed are shares of the requests, by demand too; sent: calls per request; shares: of the calls,
    by engine. A request belongs to when it came.
    """
    names = [engine.name for engine in run.fleet.engines]
    rows = []
    for start, end in pairwise(edges(run)):
        requests = [r for r in result.requests if start <= r.planned < end]
        intervals = [i for i in result.intervals if start < i.at_s <= end]
        calls = np.array([i.calls for i in intervals]).sum(axis=0) if intervals else np.zeros(len(names))
        offered = sum(i.offered for i in intervals)
        rows.append(
            {
                "from_s": start,
                "to_s": end,
                "changes": changed(run, start),
                "requests": len(requests),
                "answered_per_s": sum(r.outcome == "ok" for r in requests) / (end - start),
                **_latencies(requests),
                "shed": _share(requests, "shed"),
                "failed": _share(requests, "failed"),
                "shed_by_demand": {
                    str(demand): _share([r for r in requests if r.demand == str(demand)], "shed")
                    for demand in run.fleet.demands
                },
                "sent": sum(i.sent for i in intervals) / offered if offered else None,
                "shares": dict(zip(names, (calls / max(1, calls.sum())).tolist(), strict=True)),
            }
        )
    return rows


def edges(run: FleetRun) -> list[float]:
    """Return when something changes, from the end of the warm-up to the end, seconds."""
    return sorted({run.warm_up_s, *(c.at_s for c in run.changes if c.at_s > run.warm_up_s), run.duration_s})


def changed(run: FleetRun, start: float) -> list[str]:
    """Return in words what changed at one of them, or, at the first, before."""
    return [
        f"{c.kind} {c.name} {c.value:g}".replace("  ", " ")
        for c in run.changes
        if c.at_s == start or (start == run.warm_up_s and c.at_s < start)
    ]


def series(run: FleetRun, result: FleetResult) -> list[dict[str, Any]]:
    """Return a row for each interval: calls and penalties by engine, the plan in use, the budget."""
    names = [engine.name for engine in run.fleet.engines]
    return [
        {
            "at_s": interval.at_s,
            "offered": interval.offered,
            "sent": interval.sent,
            "calls": dict(zip(names, interval.calls, strict=True)),
            "penalties": interval.penalties,
            "version": interval.version,
            "retry_ratio": interval.retry_ratio,
        }
        for interval in result.intervals
    ]


def _latencies(requests: list[Request]) -> dict[str, float | None]:
    times = [1e3 * (r.done - r.planned) for r in requests if r.outcome == "ok"]
    if not times:
        return dict.fromkeys(("p50_ms", "mean_ms", "p99_ms"))
    p50, p99 = np.quantile(times, (0.5, 0.99)).tolist()
    return {"p50_ms": p50, "mean_ms": float(np.mean(times)), "p99_ms": p99}


def _share(requests: list[Request], outcome: str) -> float:
    return sum(r.outcome == outcome for r in requests) / len(requests) if requests else 0.0
