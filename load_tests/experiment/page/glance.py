"""One line per plan from p50 to p99.9: how far the slow queries are from the usual ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

from load_tests.experiment.page.choices import Choices
from load_tests.experiment.rows import Measurement
from load_tests.tables import ms
from parm_ray.page.svg import Box, Log, drawing, note, spaced_ticks, tag, text, x_axis

WIDTH, LANE, LABELS, RIGHT = 1060, 38, 310, 985
FIGURES = (("p50", "p50_ms"), ("p99", "p99_ms"), ("p99.9", "p999_ms"))
LEGEND = (
    '<ul class="legend marks"><li><i class="swatch ring"></i>p50</li>'
    '<li><i class="swatch round"></i>p99</li><li><i class="swatch square"></i>p99.9</li>'
    '<li><i class="swatch wide"></i>95 % interval of p99.9</li></ul>'
)


def glance(there: Sequence[Measurement], choices: Choices) -> str:
    """The drawing for one rate; latency grows to the right, on a logarithmic axis."""
    values = [one.row[name] for one in there for _, name in FIGURES]
    values += [end for one in there for end in one.row["p999_ms_interval"]]
    finite = [value for value in values if math.isfinite(value) and value > 0]
    if not finite:
        return "<p>No query was answered.</p>"
    box = Box(LABELS, 10, RIGHT, 10 + LANE * len(there))
    x = Log(min(finite) * 0.93, max(finite) * 1.08, box.left, box.right)
    parts = [x_axis(x, box, "latency from the planned send time, ms", "{:,.10g}", spaced_ticks(x, 46))]
    for n, one in enumerate(there):
        parts.append(_lane(one, choices, x, box, box.top + LANE * (n + 0.5)))
    return LEGEND + drawing(WIDTH, box.bottom + 46, "p50, p99 and p99.9 of each plan", *parts)


def _lane(one: Measurement, choices: Choices, x: Log, box: Box, y: float) -> str:
    series, row = choices.of(one.variant), one.row
    title = series.title if len(series.title) <= 46 else series.title[:45] + "…"
    label = text(LABELS - 16, y + 4, title, class_="lane", text_anchor="end")

    def at(value: float) -> float:
        return x(value) if math.isfinite(value) else box.right

    low, high = row["p999_ms_interval"]
    marks = []
    if math.isfinite(low):
        marks.append(tag("line", x1=at(low), x2=at(high), y1=y, y2=y, class_="interval"))
    if math.isfinite(row["p50_ms"]):
        marks.append(tag("line", x1=at(row["p50_ms"]), x2=at(row["p999_ms"]), y1=y, y2=y, class_="curve"))
        marks.append(tag("circle", cx=at(row["p50_ms"]), cy=y, r=5, class_="ring"))
    if math.isfinite(row["p99_ms"]):
        marks.append(tag("circle", cx=at(row["p99_ms"]), cy=y, r=5, class_="dot"))
    if math.isfinite(row["p999_ms"]):
        marks.append(
            tag("rect", x=at(row["p999_ms"]) - 5.5, y=y - 5.5, width=11, height=11, rx=2, class_="dot")
        )
    end = at(max(row["p999_ms"], high) if math.isfinite(low) else row["p999_ms"])
    figure = text(end + 12, y + 4, ms(row["p999_ms"]), class_="figure")
    figures = ", ".join(f"{name} {ms(row[key])}" for name, key in FIGURES)
    words = note(f"{series.title}: {figures} ms")
    return tag("g", label, tag("g", words, *marks, figure, class_=f"drawn {series.css}"))
