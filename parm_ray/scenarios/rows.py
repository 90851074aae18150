"""Result rows of simulated cells: the same keys as the rows of real runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from parm_ray.core import Outcome
from parm_ray.groups.lanes import DEPLOYED
from parm_ray.scenarios.cells import SimulatedCell
from parm_ray.sim import OUTCOMES
from parm_ray.stats import LatencySummary, percentile, summarise

Row = dict[str, Any]

FIGURES = {
    "p50_ms": "p50",
    "mean_ms": "mean",
    "p90_ms": "p90",
    "p99_ms": "p99",
    "p995_ms": "p99_5",
    "p999_ms": "p99_9",
}


def row_of(cells: Sequence[SimulatedCell], warm_up: int) -> Row:
    """Return the row of one plan at one rate, less the first `warm_up` queries of each repetition.

    A latency is the median over repetitions, with the least and the greatest beside it; milliseconds.
    Where a repetition has a million queries or more, p9999_ms too.
    """
    first = cells[0]
    plan = first.plan.plan
    summaries = [_summary(cell, warm_up) for cell in cells]
    coded = plan.kind == "coded"
    row: Row = {
        "plan": first.plan.name,
        "pool": plan.pool if coded else None,
        "k": plan.k if coded else None,
        "rate": round(first.rate, 4),
        "load": round(first.load, 4),
        "utilization": round(median(cell.found.utilisation(DEPLOYED) for cell in cells), 4),
        "queries": sum(summary.n for summary in summaries),
    }
    for name, field in FIGURES.items():
        values = [getattr(summary, field) * 1e3 for summary in summaries]
        row[name] = _ms(median(values))
        row[f"{name}_min"], row[f"{name}_max"] = _ms(min(values)), _ms(max(values))
    if min(summary.n for summary in summaries) >= 500_000:
        row["p9999_ms"] = _ms(
            1e3 * median(percentile(cell.found.latency[warm_up:], 0.9999) for cell in cells)
        )
    row["gap_ms"] = _ms(row["p999_ms"] - row["p50_ms"]) if row["p999_ms"] is not None else None
    row["reconstructed"] = _share(cells, Outcome.RECONSTRUCTED, warm_up)
    for outcome in (Outcome.COPY, Outcome.BACKUP, Outcome.DEFAULT):
        share = _share(cells, outcome, warm_up)
        if share:
            row[outcome.value] = share
    row["extra_work"] = round(median(cell.found.extra_work for cell in cells), 4)
    row["errors"] = sum(summary.failed for summary in summaries)
    row["repetitions"] = len(cells)
    return row


def _summary(cell: SimulatedCell, warm_up: int) -> LatencySummary:
    latency = cell.found.latency[warm_up:]
    failed = int((latency == math.inf).sum())
    return summarise(latency[latency < math.inf], failed)


def _share(cells: Sequence[SimulatedCell], outcome: Outcome, warm_up: int) -> float:
    """Share of the answers."""
    failed = OUTCOMES.index(Outcome.FAILED)
    wanted = OUTCOMES.index(outcome)
    answers = sum(int((cell.found.outcome[warm_up:] != failed).sum()) for cell in cells)
    found = sum(int((cell.found.outcome[warm_up:] == wanted).sum()) for cell in cells)
    return round(found / answers, 5) if answers else 0.0


def _ms(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None
