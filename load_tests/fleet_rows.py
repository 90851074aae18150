"""What the phases of a fleet's run gave: rows of plain data, and a table of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from load_tests.client import Reply, SendFailed, Shot
from load_tests.fleet_requests import ENGINES


def row_of(
    name: str,
    rate: float,
    shots: Sequence[tuple[str, Shot[Reply]]],
    seconds: float,
    retries: Mapping[str, int],
) -> dict[str, Any]:
    """Return an open phase's row. rate: offered, requests per second; shots: each with its demand.

    Of the answers, answered_per_s has those that came within the phase: what was queued at its end is no
    goodput of it. Latencies are of all of them. refusals: why, and how often.
    """
    statuses: Counter[str] = Counter()
    times, spent, engines = [], [], Counter[str]()
    shed, refusals = Counter[str](), Counter[str]()
    in_time = 0
    demands = Counter(demand for demand, _ in shots)
    # The last third: what a controller's reaction has settled to.
    late: Counter[str] = Counter()
    for demand, shot in shots:
        reply = shot.result
        if isinstance(reply, SendFailed):
            statuses["no response"] += 1
            continue
        statuses[str(reply.status)] += 1
        engine = reply.headers.get("x-parm-engine", "")
        if reply.status == 200:
            times.append(1e3 * (shot.done - shot.planned))
            in_time += shot.done <= seconds
            engines[engine] += 1
            late[engine] += shot.planned > 2 / 3 * seconds
        elif reply.status == 503 and "Retry-After" in reply.headers:
            shed[demand] += 1
            refusals[reply.body.decode(errors="replace")[:200]] += 1
            spent.append(float(reply.headers.get("x-parm-spent-ms", "nan")))
    lateness = [1e3 * (shot.sent - shot.planned) for _, shot in shots]
    return {
        "phase": name,
        "offered_per_s": rate,
        "requests": len(shots),
        "statuses": dict(statuses),
        "refusals": dict(refusals.most_common(5)),
        "answered_per_s": in_time / seconds,
        "p50_ms": _quantile(times, 0.5),
        "p99_ms": _quantile(times, 0.99),
        "shed": {demand: shed[demand] / count for demand, count in sorted(demands.items())},
        "refused_within_ms_p50": _quantile(spent, 0.5),
        "refused_within_ms_p99": _quantile(spent, 0.99),
        "sent": 1 + retries["granted"] / max(1, retries["offered"]),
        "engines": {engine: engines[engine] / max(1, len(times)) for engine in ENGINES},
        "engines_at_the_end": {engine: late[engine] / max(1, late.total()) for engine in ENGINES},
        "generator_late_ms_p99": _quantile(lateness, 0.99),
    }


def overload_of(near: Mapping[str, Any], beyond: Mapping[str, Any], measured: float) -> dict[str, Any]:
    """Return what overload costs: the phase beyond capacity against what was measured, and the one near it.

    goodput_of_measured: answered per second over what a closed loop got; p99_of_near: the p99 of what was
    admitted over that of the phase near capacity, None if nothing was answered in one of them.
    """
    goodput = beyond["answered_per_s"] / measured if measured else None
    one, two = near["p99_ms"], beyond["p99_ms"]
    return {"goodput_of_measured": goodput, "p99_of_near": two / one if one and two else None}


def show(found: Mapping[str, Any]) -> None:
    """Print a run: capacities, a row a phase, what overload costs."""
    rows, capacity, overload = found["rows"], found["capacity"], found["overload"]
    table = Table(
        "phase", "offered/s", "requests", "statuses", "answered/s", "p50 ms", "p99 ms", "shed",
        "refused in ms, p50", "p99", "sent", "shares", "at the end",
    )  # fmt: skip
    for row in rows:
        table.add_row(
            row["phase"],
            f"{row['offered_per_s']:.1f}",
            str(row["requests"]),
            ", ".join(f"{status}: {count}" for status, count in sorted(row["statuses"].items())),
            f"{row['answered_per_s']:.1f}",
            *_shown(row, ".0f", "p50_ms", "p99_ms"),
            ", ".join(f"{demand} {100 * share:.1f} %" for demand, share in row["shed"].items()),
            *_shown(row, ".2f", "refused_within_ms_p50", "refused_within_ms_p99"),
            f"{row['sent']:.3f}",
            *(
                ", ".join(f"{name} {100 * share:.0f}" for name, share in row[key].items())
                for key in ("engines", "engines_at_the_end")
            ),
        )
    console = Console(width=None if Console().is_terminal else 200)
    console.print(table)
    loops = ", ".join(f"{one['workers']} at a time {one['answered_per_s']:.1f}" for one in capacity["closed"])
    console.print(
        f"capacity: nominal {capacity['nominal_per_s']:.1f}/s, "
        f"measured {capacity['measured_per_s']:.1f}/s ({loops})"
    )
    goodput, times = _shown(overload, ".3f", "goodput_of_measured", "p99_of_near")
    console.print(f"overload: goodput {goodput} of measured, admitted p99 {times} times that at 0.9 of it")


def _shown(row: Mapping[str, Any], how: str, *names: str) -> list[str]:
    return ["-" if row[name] is None else format(row[name], how) for name in names]


def _quantile(values: list[float], q: float) -> float | None:
    return float(np.quantile(values, q)) if values else None
