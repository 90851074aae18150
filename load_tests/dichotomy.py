"""`python -m load_tests.dichotomy`: which shape of the tail wants which redundancy, as a table and a page.

Four servers, losers that stop at once. By law of the service time: what r copies cost, r E[X_{1:r}] / E[X],
by formula; and the mean latency against the load of one queue per group of r servers (r = 1, 2, 4; formula),
and of a fork to all that keeps the first copy to start (early cancellation; simulated). Log-convex laws: all
copies are fastest and cheapest at every load. Log-concave ones: early cancellation is, from some load on, and
copies only cost. The others have to be computed. (Joshi, Soljanin and Wornell, 2017.)
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from parm_ray.advisor import groups, parse_law
from parm_ray.page.svg import Box, Linear, Log, drawing, note, polyline, spaced_ticks, tag, x_axis, y_axis
from parm_ray.sim.forks import Forking, simulate_forks

SERVERS = 4
LAWS = (
    "weibull(shape=0.7, scale=1)",
    "hyperexponential(share=0.9, rates=1/0.1)",
    "exponential(rate=1)",
    "weibull(shape=1.4, scale=1)",
    "shifted_exponential(shift=0.5, rate=2)",
    "uniform(low=0, high=2)",
    "pareto(least=1, shape=1.2)",
    "pareto(least=1, shape=1.5)",
    "pareto(least=1, shape=2.5)",
    "bimodal(fast=1, slow=10, slow_share=0.05)",
)
COPIES = (1, 2, 4)
MOST = 8
LOADS = tuple(np.linspace(0.05, 0.95, 19).round(3).tolist())
SIMULATED = (0.1, 0.3, 0.5, 0.7, 0.9)
COLOURS = {"1": "#8b939b", "2": "#2f6fd6", "4": "#0b8f6b", "early": "#d58a00"}
NAMES = {"1": "one server", "2": "2 copies", "4": "4 copies", "early": "early cancellation (simulated)"}

# Latencies beyond so many mean service times are left out of the drawings.
HIGH = 12.0

WIDTH, HEIGHT = 470, 250
BOX = Box(56, 30, 450, 200)


def row_of(words: str, jobs: int) -> dict[str, Any]:
    """Return costs by copies, and latencies by load in units of the mean service time; None: unstable."""
    law = parse_law(words)
    mean = law.mean
    latency: dict[str, list[tuple[float, float]]] = {str(r): [] for r in COPIES}
    for load in LOADS:
        for r in COPIES:
            found = groups(law, SERVERS, r, load * SERVERS / mean).latency_s / mean
            if math.isfinite(found):
                latency[str(r)].append((load, found))
    early = Forking(SERVERS, SERVERS, 1)
    rng = np.random.default_rng(11)
    latency["early"] = [
        (
            load,
            float(simulate_forks(early, law, load * SERVERS / mean, rng, jobs=jobs).latency_s.mean()) / mean,
        )
        for load in SIMULATED
    ]
    return {
        "law": words,
        "log_tail": law.log_tail,
        "cost": [r * law.min_mean(r) / mean for r in range(1, MOST + 1)],
        "latency": latency,
        "fastest": {str(load): _fastest(latency, load) for load in SIMULATED},
    }


def _fastest(latency: dict[str, list[tuple[float, float]]], load: float) -> str:
    def at(name: str) -> float:
        points = latency[name]
        if not points or load > points[-1][0] + 0.05:
            return math.inf
        return float(np.interp(load, [x for x, _ in points], [y for _, y in points]))

    return min(NAMES, key=at)


def page(rows: Sequence[dict[str, Any]]) -> str:
    """Return the plot: one panel of costs and one of latencies for each law."""
    legend = "".join(f'<span><i style="background:{COLOURS[k]}"></i>{v}</span>' for k, v in NAMES.items())
    panels = "".join(
        f"<section><h2>{escape(row['law'])}</h2><p>log tail: {row['log_tail']}</p>"
        f'<div class="two">{_costs(row)}{_latencies(row)}</div></section>'
        for row in rows
    )
    style = (Path(__file__).parent / "page" / "style.css").read_text(encoding="utf-8")
    more = (
        ".two{display:grid;grid-template-columns:1fr 1fr;gap:18px}.line{fill:none;stroke-width:2.2}"
        ".legend{display:flex;gap:18px;flex-wrap:wrap}.legend i{display:inline-block;width:12px;height:12px;"
        "margin-right:6px;border-radius:3px}"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><link rel="icon" href="data:,">'
        f"<title>The dichotomy</title><style>{style}{more}</style></head><body><main>"
        "<h1>Log-convex tails want copies, log-concave ones early cancellation</h1>"
        f"<p>{escape((__doc__ or '').split(chr(10), 1)[1].strip())}</p>"
        f'<div class="legend">{legend}</div>{panels}</main></body></html>'
    )


def _costs(row: dict[str, Any]) -> str:
    costs = row["cost"]
    x = Linear(1, MOST, BOX.left, BOX.right, about=MOST)
    y = Log(0.9 * min(*costs, 0.9), 1.1 * max(*costs, 1.2), BOX.bottom, BOX.top)
    spots = [(x(r), y(cost)) for r, cost in enumerate(costs, 1)]
    even = tag("line", x1=BOX.left, x2=BOX.right, y1=y(1), y2=y(1), stroke="#d1332e", stroke_dasharray="4 4")
    return drawing(
        WIDTH,
        HEIGHT,
        f"Cost of copies, {row['law']}",
        x_axis(x, BOX, "copies"),
        y_axis(y, BOX, "cost of all, over one call's", [(t, f"{t:g}") for t in spaced_ticks(y, 26)]),
        even,
        polyline(spots, class_="line", stroke=COLOURS["2"]),
    )


def _latencies(row: dict[str, Any]) -> str:
    values = [v for points in row["latency"].values() for _, v in points if v <= HIGH]
    x = Linear(0, 1, BOX.left, BOX.right, about=5)
    y = Log(0.9 * min(values), 1.1 * max(values), BOX.bottom, BOX.top)
    lines = [
        tag(
            "g",
            note(NAMES[name]),
            polyline([(x(a), y(v)) for a, v in points if v <= HIGH], class_="line", stroke=COLOURS[name]),
        )
        for name, points in row["latency"].items()
        if points
    ]
    return drawing(
        WIDTH,
        HEIGHT,
        f"Latency by load, {row['law']}",
        x_axis(x, BOX, "load without redundancy"),
        y_axis(y, BOX, "mean latency, in service times", [(t, f"{t:g}") for t in spaced_ticks(y, 26)]),
        *lines,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table, or JSON, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=int, default=4000, help="per simulated run, of 64")
    parser.add_argument("--html", type=Path, help="where the page goes")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    rows = [row_of(words, given.jobs) for words in LAWS]
    if given.html is not None:
        given.html.write_text(page(rows), encoding="utf-8")
    if given.json:
        print(json.dumps(rows, indent=1))
        return 0
    table = Table("law", "log tail", "cost of 2", "of 4", "of 8", *(f"fastest at {a:.0%}" for a in SIMULATED))
    for row in rows:
        costs = (f"{row['cost'][r - 1]:.3f}" for r in (2, 4, 8))
        table.add_row(
            row["law"], row["log_tail"], *costs, *(NAMES[n].split(" (")[0] for n in row["fastest"].values())
        )
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
