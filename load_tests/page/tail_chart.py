"""The tail: share of queries that took at least so long, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from load_tests.records import ClientRecord, failures, latencies
from load_tests.tables import ms
from parm_ray.page.svg import Box, Log, drawing, polyline, tag, text, x_axis, y_axis
from parm_ray.stats import ccdf, percentile, thin

WIDTH, HEIGHT = 960, 470
BOX = Box(70, 40, 900, 415)
LEVELS = ((0.5, "p50"), (0.1, "p90"), (0.01, "p99"), (0.001, "p99.9"))


def tail_chart(runs: Mapping[str, Sequence[ClientRecord]], titles: Mapping[str, str]) -> str:
    """One curve per plan, with a legend that gives each p99. Plans without an answer have no curve."""
    values = {plan: latencies(records) * 1e3 for plan, records in runs.items()}
    values = {plan: v for plan, v in values.items() if len(v)}
    if not values:
        return "<p>No query was answered.</p>"
    slowest, fastest = max(v.max() for v in values.values()), min(v.min() for v in values.values())
    most = max(len(records) for records in runs.values())
    x = Log(float(fastest) * 0.92, float(slowest) * 1.15, BOX.left, BOX.right, steps=(1, 1.5, 2, 3, 5, 7))
    y = Log(1 / (1.3 * most), 1.0, BOX.bottom, BOX.top, steps=(1,))
    levels = [(share, name) for share, name in LEVELS if share >= y.low]
    parts = [
        x_axis(x, BOX, "latency from the planned send time, ms"),
        y_axis(y, BOX, "share of queries at least this late", [(t, f"{100 * t:g} %") for t in y.ticks()]),
        *[text(BOX.right + 8, y(share) + 4, name, class_="tick") for share, name in levels],
    ]
    legend = []
    for plan, v in values.items():
        failed = failures(runs[plan])
        at, share = thin(*ccdf(v, failed), per_decade=120)
        parts.append(polyline(_steps(x, y, at, share), class_=f"curve plan-{plan}"))
        p99 = percentile(v, 0.99, failed)
        if np.isfinite(p99) and y.low <= 0.01:
            parts.append(tag("circle", cx=x(p99), cy=y(0.01), r=4.5, class_=f"dot plan-{plan}"))
        legend.append(
            f'<li><i class="swatch plan-{plan}"></i>{escape(titles[plan])} '
            f"<b>p99 {ms(p99)}{' ms' if np.isfinite(p99) else ''}</b></li>"
        )
    svg = drawing(WIDTH, HEIGHT, "Complementary distribution of latency by plan", *parts)
    return f'<ul class="legend">{"".join(legend)}</ul>{svg}'


def _steps(x: Log, y: Log, at: np.ndarray, share: np.ndarray) -> list[tuple[float, float]]:
    points = [(x(float(at[0])), y(float(share[0])))]
    for value, level in zip(at[1:], share[1:], strict=True):
        points += [(points[-1][0], y(float(level))), (x(float(value)), y(float(level)))]
    return points
