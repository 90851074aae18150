"""p50, p99 and p99.9 against the rate: one panel each, one line per plan."""

from __future__ import annotations

import math
from collections.abc import Sequence

from load_tests.experiment.page.choices import Choices, Series
from load_tests.experiment.rows import Measurement, at_rate
from load_tests.experiment.titles import per_second
from load_tests.tables import ms
from parm_ray.page.svg import Box, Linear, Log, drawing, note, polyline, spaced_ticks, tag, text, y_axis

WIDTH, HEIGHT = 360, 330
BOX = Box(48, 44, 350, 270)
PANELS = (("p50_ms", "p50"), ("p99_ms", "p99"), ("p999_ms", "p99.9"))
# Whiskers of plans at one rate would lie on each other: each is shifted by so much, all by no more.
SHIFT = 2.4
SPREAD = 16
# Of more plans than this, whiskers and dots are less heavy.
FEW = 6


def by_load(measurements: Sequence[Measurement], choices: Choices) -> str:
    """The three panels side by side. Whiskers are 95 % intervals; a triangle says never."""
    panels = "".join(f"<div>{_panel(measurements, choices, *panel)}</div>" for panel in PANELS)
    many = " many" if len(choices.series) > FEW else ""
    return f'<div class="panels{many}">{panels}</div>'


def _panel(measurements: Sequence[Measurement], choices: Choices, figure: str, name: str) -> str:
    values = [one.row[figure] for one in measurements]
    values += [end for one in measurements for end in one.row[f"{figure}_interval"]]
    finite = [value for value in values if math.isfinite(value) and value > 0]
    if not finite:
        return f"<p>{name}: no query was answered.</p>"
    margin = 0.06 * (choices.rates[-1] - choices.rates[0]) or 1.0
    x = Linear(choices.rates[0] - margin, choices.rates[-1] + margin, BOX.left, BOX.right)
    y = Log(min(finite) * 0.94, max(finite) * 1.1, BOX.bottom, BOX.top)
    labels = [(value, f"{value:,.10g}") for value in spaced_ticks(y, 24)]
    parts = [
        *_rates(measurements, choices, x),
        y_axis(y, BOX, "", labels),
        # Above the triangles, which stand where the axis would have its title.
        text(BOX.left - 8, BOX.top - 26, f"{name}, ms", class_="lane"),
    ]
    radius = 3.6 if len(choices.series) <= FEW else 2.8
    for n, series in enumerate(choices.series):
        ours = sorted((o for o in measurements if o.variant == series.variant), key=lambda o: o.rate)
        shift = min(SHIFT, SPREAD / len(choices.series)) * (n - (len(choices.series) - 1) / 2)
        parts.append(_line(ours, figure, series, x, y, shift, radius))
    return drawing(WIDTH, HEIGHT, f"{name} against the rate, by plan", *parts)


def _rates(measurements: Sequence[Measurement], choices: Choices, x: Linear) -> list[str]:
    parts, last = [], -math.inf
    for rate in choices.rates:
        at = x(rate)
        parts.append(tag("line", x1=at, x2=at, y1=BOX.top, y2=BOX.bottom, class_="grid"))
        if at - last < 34:
            continue
        last = at
        parts.append(text(at, BOX.bottom + 17, per_second(rate), class_="tick", text_anchor="middle"))
        loads = {round(o.load, 3) for o in at_rate(measurements, rate) if o.load is not None}
        if len(loads) == 1:
            words = f"{100 * loads.pop():.0f} %"
            parts.append(text(at, BOX.bottom + 32, words, class_="tick faint", text_anchor="middle"))
    title = text(
        (BOX.left + BOX.right) / 2, BOX.bottom + 54, "queries/s", class_="axis", text_anchor="middle"
    )
    return [*parts, title]


def _line(
    ours: Sequence[Measurement], figure: str, series: Series, x: Linear, y: Log, shift: float, radius: float
) -> str:
    runs: list[list[tuple[float, float]]] = [[]]
    marks = []
    for one in ours:
        at, value = x(one.rate) + shift, one.row[figure]
        words = note(f"{series.title}, {per_second(one.rate)} queries/s: {ms(value)} ms")
        if not math.isfinite(value):
            # The line breaks here: there is no height for never.
            runs.append([])
            triangle = f"M{at - 5:.1f} {BOX.top - 2:g}l5 -8 5 8z"
            marks.append(tag("path", words, d=triangle, class_="never"))
            continue
        runs[-1].append((at, y(value)))
        low, high = one.row[f"{figure}_interval"]
        if math.isfinite(low):
            top = y(high) if math.isfinite(high) else BOX.top
            marks.append(tag("line", x1=at, x2=at, y1=y(low), y2=top, class_="whisker"))
        marks.append(tag("circle", words, cx=at, cy=y(value), r=radius, class_="dot"))
    lines = [polyline(run, class_=f"curve {series.css}") for run in runs if len(run) > 1]
    return tag("g", *lines, *marks, class_=f"drawn {series.css}")
