"""The paper's Fig. 10a predicted, and the settings around it: tasks, published figures, rows.

Published latencies were read off the paper's vector figures (ParM, SOSP'19, Figs 10a, 11, 12, 13); they
are compared with, never fitted to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import Any

from parm_ray.groups.lanes import DEPLOYED
from parm_ray.scenarios.paper import GPU, Calibration, PaperCase, calibrate, simulate_case
from parm_ray.sim.processes import over_processes
from parm_ray.stats import LatencySummary, summarise

Row = dict[str, Any]

RATES = (150, 180, 210, 240, 270, 300, 330, 360, 390)
LOW_RATES = (60, 90, 120, 150, 180, 210, 240)
PUBLISHED_P999 = {
    "equal_resources": (55.4, 52.6, 53.3, 53.6, 52.8, 51.2, 51.4, 49.3, 49.7),
    "parm": (33.4, 32.6, 31.2, 30.8, 30.8, 30.1, 30.1, 30.4, 30.6),
}
"""Fig. 10a, p99.9 in ms at RATES; Equal-Resources at 270 is what the calibration sees."""

PUBLISHED_MEDIAN = {("parm", 270): 20.5, ("equal_resources", 270): 20.3}
TENANT_RATE, TENANT_NODES = 28.0, 2


def figure_10a() -> list[tuple[str, PaperCase]]:
    """Return (name, case) of the figure's nine rates."""
    return [("Fig. 10a", PaperCase(plan, rate)) for rate in RATES for plan in ("equal_resources", "parm")]


def around() -> list[tuple[str, PaperCase]]:
    """Return the settings around 270 queries per second: k, shuffles, a second model, slot decoding."""
    cases: list[tuple[str, PaperCase]] = []
    at = PaperCase("parm", GPU.rate)
    for k in (3, 4):
        cases += [(f"k = {k}", replace(at, plan=plan, k=k)) for plan in ("equal_resources", "parm", "slot")]
    for shuffles in (2, 3, 5):
        name = f"{shuffles} shuffles"
        cases += [(name, replace(at, plan=plan, shuffles=shuffles)) for plan in ("equal_resources", "parm")]
    second = replace(at, shuffles=0, tenant_nodes=TENANT_NODES, tenant_rate=TENANT_RATE)
    cases += [("second model", replace(second, plan=plan)) for plan in ("equal_resources", "parm")]
    return [*cases, ("slot decoding", replace(at, plan="slot"))]


def low_rates() -> list[tuple[str, PaperCase]]:
    """Return the rates at which groups fill slowly, where the paper loses to its approximate backup.

    The backup is used from the median of Equal-Resources on, as the paper's post-processing does. "slot"
    waits 2 ms for company, and not at all while a fifth of the parity servers is idle. "shared_slot" has
    all servers hold both models, and sends every query to two of them while six in ten are idle.
    """
    cases: list[tuple[str, PaperCase]] = []
    for rate in LOW_RATES:
        held = PaperCase("backup", rate, hold_off_s=GPU.median / 1e3)
        eager = replace(held, plan="slot", fill_timeout_s=0.002, eager_share=0.2)
        shared = replace(
            held, plan="shared_slot", fill_timeout_s=0.002, eager_share=0.3, copy_share=0.6, idle_reserve=0.05
        )
        cases += [("low rate", case) for case in (held, eager, shared, PaperCase("parm", rate))]
    return cases


def predictions(
    cases: list[tuple[str, PaperCase]], *, queries: int, seeds: int, processes: int
) -> Iterator[Row]:
    """Yield a row per case: medians over seeds, ms, and the published figures beside them."""
    fit = calibrate(GPU)
    tasks = [(case, fit, queries, seed) for _, case in cases for seed in range(seeds)]
    found = over_processes(processes)(_summary, tasks)
    for name, case in cases:
        yield _row(name, case, [next(found) for _ in range(seeds)])


def _summary(task: tuple[PaperCase, Calibration, int, int]) -> tuple[LatencySummary, float, float]:
    run = simulate_case(*task)
    return summarise(run.latency), run.utilisation(DEPLOYED), run.extra_work


def _row(name: str, case: PaperCase, found: list[tuple[LatencySummary, float, float]]) -> Row:
    summaries = [summary for summary, _, _ in found]
    fields = {"p50_ms": "p50", "mean_ms": "mean", "p99_ms": "p99", "p995_ms": "p99_5", "p999_ms": "p99_9"}
    row: Row = {"setting": name, "plan": case.plan, "k": case.k, "rate": case.rate, "shuffles": case.shuffles}
    row["utilization"] = round(median(busy for _, busy, _ in found), 3)
    row["extra_work"] = round(median(extra for _, _, extra in found), 3)
    for key, field in fields.items():
        row[key] = round(1e3 * median(getattr(summary, field) for summary in summaries), 2)
    values = [1e3 * summary.p99_9 for summary in summaries]
    row["p999_ms_min"], row["p999_ms_max"] = round(min(values), 2), round(max(values), 2)
    published = None
    if name == "Fig. 10a" and case.plan in PUBLISHED_P999:
        published = PUBLISHED_P999[case.plan][RATES.index(int(case.rate))]
    row["published_p999_ms"] = published
    row["error"] = None if published is None else round(row["p999_ms"] / published - 1, 4)
    row["published_p50_ms"] = PUBLISHED_MEDIAN.get((case.plan, int(case.rate))) if published else None
    return row
