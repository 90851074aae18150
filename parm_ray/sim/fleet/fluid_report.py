"""What a fleet of fluids did, as plain data; the same rows as of one whose requests are played, but means."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from parm_ray.sim.fleet.fluid import FluidInterval, FluidResult
from parm_ray.sim.fleet.report import changed, edges
from parm_ray.sim.fleet.setting import FleetRun


def fluid_phases(run: FleetRun, result: FluidResult) -> list[dict[str, Any]]:
    """Return a row for the time from each change to the next; latencies in milliseconds.

    mean_ms: of what was answered. worst_ms: of the slowest way that at least 1 % of all took in an interval,
    the greatest there was. shed and failed are shares of the requests; sent: calls per request; shares: of
    the calls, by engine.
    """
    names = [engine.name for engine in run.fleet.engines]
    rows = []
    for start, end in pairwise(edges(run)):
        some = [one for one in result.intervals if start < one.at_s <= end]
        offered, answered = (sum(getattr(one, what) for one in some) for what in ("offered", "answered"))
        calls = np.array([one.calls for one in some]).sum(axis=0) if some else np.zeros(len(names))
        rows.append(
            {
                "from_s": start,
                "to_s": end,
                "changes": changed(run, start),
                "requests": round(offered),
                "answered_per_s": answered / (end - start),
                "mean_ms": 1e3 * sum(one.mean_s * one.answered for one in some) / answered
                if answered
                else None,
                "worst_ms": 1e3 * max(one.worst_s for one in some) if answered else None,
                "shed": sum(one.shed for one in some) / offered if offered else 0.0,
                "failed": sum(one.failed for one in some) / offered if offered else 0.0,
                "sent": sum(one.sent for one in some) / offered if offered else None,
                "shares": dict(zip(names, (calls / max(1.0, calls.sum())).tolist(), strict=True)),
            }
        )
    return rows


def fluid_series(run: FleetRun, result: FluidResult) -> list[dict[str, Any]]:
    """Return a row for each interval."""
    names = [engine.name for engine in run.fleet.engines]
    return [_row(names, interval) for interval in result.intervals]


def _row(names: list[str], interval: FluidInterval) -> dict[str, Any]:
    same = ("at_s", "offered", "answered", "sent", "shed", "failed", "penalties", "version", "retry_ratio")
    times = {
        "mean_ms": 1e3 * interval.mean_s,
        "worst_ms": 1e3 * interval.worst_s,
        "expected_ms": 1e3 * interval.expected_s,
    }
    calls = dict(zip(names, interval.calls, strict=True))
    return {**{name: getattr(interval, name) for name in same}, "calls": calls, **times}
