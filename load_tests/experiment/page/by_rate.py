"""The sections of which the page shows one rate at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from load_tests.experiment.columns import read_cell
from load_tests.experiment.compare import compare_plans, default_baseline
from load_tests.experiment.page.choices import Choices
from load_tests.experiment.page.glance import glance
from load_tests.experiment.page.replicas import replica_chart
from load_tests.experiment.page.results import all_results, costs_table, differences_table, results_table
from load_tests.experiment.page.section import section
from load_tests.experiment.page.tails import tails
from load_tests.experiment.page.timeline import frame, kinds, timeline
from load_tests.experiment.rows import Measurement, at_rate
from load_tests.experiment.runs import Event, RunDirectory
from load_tests.page.fault_chart import NAMES as OUTCOME_NAMES
from parm_ray.core import Outcome

There = Sequence[Measurement]
# All timelines of the page together: points of some nine bytes, marks of some 160. No single one gets
# more marks than an eye can tell apart.
POINTS = 85_000
MARKS, MOST_MARKS = 3_500, 80


def by_rate(directory: RunDirectory, measurements: There, chosen: Choices) -> list[str]:
    """The sections, in their order. Raises RunError if records cannot be read."""
    curves, times = _from_records(directory, measurements, chosen)
    events = [event for cell in directory.run.cells for event in cell.timeline]
    occurring = {outcome for one in measurements for outcome in Outcome if _occurs(one, outcome)}
    return [
        section(
            "From the median to the tail",
            "Latencies in ms. Gap: p99.9 minus p50, and as a share of that of Equal-Resources. On a green "
            "field: the best. In green: not shown to differ from it, and at most a quarter above it. Below: "
            "95 % intervals.",
            chosen.pick_rate(),
            _each(measurements, chosen, lambda there: glance(there, chosen) + results_table(there, chosen)),
            _all_rates(measurements, chosen),
        ),
        section(
            "Tail curves",
            "Read them from the top: every query takes at least the fastest time, half of them at least p50, "
            "one in a hundred at least p99. All repetitions together; a dot marks p99.",
            chosen.pick_rate(),
            chosen.legend(),
            chosen.per_rate(curves),
        ),
        _differences(directory.name, measurements, chosen),
        section(
            "Over time",
            "Every query at its planned time, in the first repetition. Where there are too many for the eye, "
            "one dot stands for those that fall together; the slow and the rare are all there.",
            chosen.pick_rate(),
            _time_legend(events, occurring),
            chosen.per_rate(times),
        ),
        _replicas(measurements, chosen),
        section(
            "What it used",
            "Extra work: busy seconds beyond those of the original calls, as a share of them.",
            chosen.pick_rate(),
            _each(measurements, chosen, lambda there: costs_table(there, chosen)),
        ),
    ]


def _each(measurements: There, chosen: Choices, draw: Callable[[There], str]) -> str:
    return chosen.per_rate([draw(at_rate(measurements, rate)) for rate in chosen.rates])


def _all_rates(measurements: There, chosen: Choices) -> str:
    if len(chosen.rates) < 2:
        return ""
    words = dict(zip(chosen.rates, chosen.rate_titles, strict=True))
    tables = all_results(measurements, chosen, words)
    return f"<details><summary>All rates</summary>{tables}</details>"


def _from_records(
    directory: RunDirectory, measurements: There, chosen: Choices
) -> tuple[list[str], list[str]]:
    """Tail curves and timelines, per rate; one rate's records are in memory at a time."""
    points = max(300, POINTS // len(measurements))
    marks = max(10, min(MOST_MARKS, MARKS // len(measurements)))
    curves, times = [], []
    for rate in chosen.rates:
        there = at_rate(measurements, rate)
        latency, firsts = {}, []
        for one in there:
            parts = [read_cell(directory, cell.id, cell.warm_up) for cell in one.cells]
            latency[one.variant] = np.concatenate([part.latency for part in parts])
            firsts.append(parts[0])
        curves.append(tails(latency, chosen))
        shared, drawn = frame(firsts, points, marks), []
        for one, columns in zip(there, firsts, strict=True):
            series, events = chosen.of(one.variant), one.cells[0].timeline
            last = one is there[-1]
            chart = timeline(series.title, series.css, columns, events, shared, last)
            drawn.append(f'<div class="drawn {series.css}">{chart}</div>')
        times.append("".join(drawn))
    return curves, times


def _differences(run: str, measurements: There, chosen: Choices) -> str:
    plan = default_baseline([series.variant for series in chosen.series])
    found = [
        comparison
        for statistic in ("p50", "p99", "p99.9")
        for comparison in compare_plans(run, measurements, statistic, plan)
    ]
    if not found:
        return ""
    name = next(series.title for series in chosen.series if series.variant.plan == plan)
    tables = []
    for rate in chosen.rates:
        there = at_rate(measurements, rate)
        ours = [c for c in found if any(c.a is one for one in there)]
        tables.append(differences_table(ours, chosen) if ours else "<p>Not measured at this rate.</p>")
    return section(
        f"Differences from {name}",
        "Real: the 95 % interval of the difference lies on one side of zero, by a block bootstrap of the "
        "queries and, if there are repetitions, their spread. Of twenty differences that are none, one is "
        "called real.",
        chosen.pick_rate(),
        chosen.per_rate(tables),
    )


def _replicas(measurements: There, chosen: Choices) -> str:
    def chart(one: Measurement) -> str:
        series, replicas = chosen.of(one.variant), one.cells[0].replicas
        if not replicas:
            return ""
        return f'<div class="drawn {series.css}">{replica_chart(series.title, series.css, replicas)}</div>'

    if not any(one.cells[0].replicas for one in measurements):
        return ""
    return section(
        "Replica by replica",
        "First repetition. Pools stand side by side; point at a bar for its replica.",
        chosen.pick_rate(),
        _each(
            measurements,
            chosen,
            lambda there: f'<div class="replicas">{"".join(chart(one) for one in there)}</div>',
        ),
    )


def _occurs(one: Measurement, outcome: Outcome) -> bool:
    if outcome is Outcome.FAILED:
        return bool(one.row["errors"])
    return bool(one.row.get(outcome.value))


def _time_legend(events: Sequence[Event], occurring: set[Outcome]) -> str:
    items = []
    for outcome in (one for one in Outcome if one in occurring):
        name = OUTCOME_NAMES[outcome]
        items.append(f'<li><i class="swatch round outcome-{outcome.value}"></i>{name}</li>')
    for kind, lasts in kinds(events).items():
        sign = ("field stalled" if kind == "stall" else "field done-to") if lasts else "dashes"
        items.append(f'<li><i class="swatch {sign}"></i>{escape(kind)}</li>')
    return f'<ul class="legend">{"".join(items)}</ul>'
