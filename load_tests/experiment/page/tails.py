"""Tail curves: share of queries that took at least so long, both axes logarithmic, one curve per plan."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from load_tests.experiment.page.choices import Choices
from load_tests.experiment.rows import Variant
from load_tests.tables import ms
from parm_ray.page.svg import Box, Log, drawing, note, spaced_ticks, tag, text, x_axis, y_axis
from parm_ray.stats import ccdf, percentile, thin

Floats = NDArray[np.float64]
WIDTH, HEIGHT = 1060, 470
BOX = Box(74, 40, 1000, 415)
LEVELS = ((0.5, "p50"), (0.1, "p90"), (0.01, "p99"), (0.001, "p99.9"))


def tails(latency: Mapping[Variant, Floats], choices: Choices) -> str:
    """The drawing for one rate. latency: ms of all queries of a variant, inf for the failed."""
    answered = {variant: values[np.isfinite(values) & (values > 0)] for variant, values in latency.items()}
    answered = {variant: values for variant, values in answered.items() if len(values)}
    if not answered:
        return "<p>No query was answered.</p>"
    fastest, slowest = min(v.min() for v in answered.values()), max(v.max() for v in answered.values())
    most = max(len(values) for values in latency.values())
    x = Log(float(fastest) * 0.95, float(slowest) * 1.1, BOX.left, BOX.right)
    y = Log(1 / (1.3 * most), 1.0, BOX.bottom, BOX.top, steps=(1,))
    parts = [
        x_axis(x, BOX, "latency from the planned send time, ms", "{:,.10g}", spaced_ticks(x, 44)),
        y_axis(y, BOX, "share of queries at least this late", [(t, f"{100 * t:g} %") for t in y.ticks()]),
        *[text(BOX.right + 8, y(level) + 4, name, class_="tick") for level, name in LEVELS if level >= y.low],
    ]
    for variant, values in answered.items():
        failed = len(latency[variant]) - len(values)
        at, share = thin(*ccdf(values, failed), per_decade=40)
        p99 = percentile(values, 0.99, failed)
        series = choices.of(variant)
        marks = [
            note(f"{series.title}: p99 {ms(p99)} ms"),
            tag("path", d=_steps(x, y, at, share), class_=f"curve {series.css}"),
        ]
        if np.isfinite(p99) and y.low <= 0.01:
            marks.append(tag("circle", cx=x(p99), cy=y(0.01), r=4.5, class_="dot"))
        parts.append(tag("g", *marks, class_=f"drawn {series.css}"))
    return drawing(WIDTH, HEIGHT, "Complementary distribution of latency by plan", *parts)


def _steps(x: Log, y: Log, at: Floats, share: Floats) -> str:
    # Half of a page's size are these: steps as relative moves, in tenths.
    across = np.round([x(float(value)) for value in at], 1)
    down = np.round([y(float(value)) for value in share], 1)
    moves = [
        f"v{dy:g}h{dx:g}"
        for dx, dy in zip(np.round(np.diff(across), 1), np.round(np.diff(down), 1), strict=True)
    ]
    return f"M{across[0]:g} {down[0]:g}{''.join(moves)}"
