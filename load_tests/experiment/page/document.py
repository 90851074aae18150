"""The page of an experiment: findings, tables and drawings in one file, without a script."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from load_tests.experiment.cautions import cautions
from load_tests.experiment.findings import findings
from load_tests.experiment.page.by_load import by_load
from load_tests.experiment.page.by_rate import by_rate
from load_tests.experiment.page.choices import Choices, choices
from load_tests.experiment.page.results import accuracy_table
from load_tests.experiment.page.section import section, sentences
from load_tests.experiment.rows import Measurement
from load_tests.experiment.runs import Cell, Run, RunDirectory
from load_tests.experiment.titles import titles
from load_tests.page.document import STYLE as BASE_STYLE

STYLE = Path(__file__).with_name("style.css")


def render(directory: RunDirectory, measurements: Sequence[Measurement]) -> str:
    """The whole HTML document. Raises RunError if records cannot be read."""
    run, names, chosen = directory.run, titles(measurements), choices(measurements)
    found, doubts = findings(measurements, names), cautions(run, measurements, names)
    points = "".join(f"<li>{escape(point)}</li>" for point in found.points)
    queries = sum(one.row["queries"] for one in measurements)
    body = [
        f"<h1>{escape(found.headline)}</h1>",
        f'<p class="run">{escape(run.scenario)} · {escape(run.executor)} · {escape(run.date)} · '
        f"{queries:,} queries in {len(run.cells)} cells</p>",
        f'<ul class="findings">{points}</ul>' if points else "",
        sentences("warning", "Read this first", doubts.warnings),
        _over_rates(measurements, chosen),
        *by_rate(directory, measurements, chosen),
        section(
            "What the answers were worth",
            "Share of answers whose top class is the label, over all rates and repetitions, by where they "
            "came from. Below: 95 % intervals, and how many answers could be judged.",
            accuracy_table(measurements, chosen),
        ),
        sentences("trust", "How far these figures carry", doubts.notes),
        section("How it was run", "", _how(run)),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(run.scenario)} · parm_ray</title>"
        f"<style>{BASE_STYLE.read_text()}{STYLE.read_text()}{chosen.style()}</style></head>"
        f"<body>{chosen.inputs()}<main>{''.join(body)}</main></body></html>\n"
    )


def _over_rates(measurements: Sequence[Measurement], chosen: Choices) -> str:
    if len(chosen.rates) < 2:
        return ""
    return section(
        "Latency against load",
        "One line per plan. Latency axes are logarithmic, and each has its own range. Whiskers are 95 % "
        "intervals; a triangle on the upper edge means never. A click on a plan hides it everywhere.",
        chosen.legend(),
        by_load(measurements, chosen),
    )


def _how(run: Run) -> str:
    pairs = [
        ("Command", run.command),
        ("Commit", run.commit),
        ("Date", run.date),
        ("Executor", run.executor),
        *[(f"Machine: {name}", _plain(value)) for name, value in run.machine.items()],
        *[(f"Setting: {name}", _plain(value)) for name, value in run.settings.items()],
        ("Repetitions", _repetitions(run.cells)),
        ("Latency", "From the planned send time; open loop: no query waits for another."),
        ("Percentiles", "Nearest rank, failed queries infinitely late; the median over repetitions."),
        ("Intervals", "95 %, block bootstrap over consecutive queries, of the median over repetitions."),
        ("Utilisation", "Busy share of the deployed pool's replicas, measured."),
        ("Failed", "Queries without an answer. Default answers are answers, and counted apart."),
    ]
    items = [f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs if value]
    return f"<dl>{''.join(items)}</dl>"


def _repetitions(cells: Sequence[Cell]) -> str:
    counts = Counter((cell.plan, cell.pool, cell.k, cell.r, cell.rate) for cell in cells).values()
    warm = [cell.warm_up for cell in cells]
    return (
        f"{_span(min(counts), max(counts))} of each plan at each rate; the first "
        f"{_span(min(warm), max(warm))} queries of each are warm-up and do not count"
    )


def _span(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


def _plain(value: object) -> str:
    if isinstance(value, Mapping) and not any(isinstance(v, Mapping | list) for v in value.values()):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return value if isinstance(value, str) else json.dumps(value)
