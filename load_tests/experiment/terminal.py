"""Runs and comparisons on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from load_tests.experiment.cautions import cautions
from load_tests.experiment.compare import Comparison
from load_tests.experiment.findings import findings
from load_tests.experiment.rows import Measurement, at_rate, rates
from load_tests.experiment.runs import Run
from load_tests.experiment.tables import terminal_columns
from load_tests.experiment.titles import per_second, rate_title, titles
from load_tests.tables import Column, ms, terminal

# A table is not folded in a log.
WIDTH = 150


def wide(console: Console) -> Console:
    """The console, or a wide one where it is no terminal."""
    return console if console.is_terminal else Console(width=WIDTH, stderr=console.stderr)


def print_run(console: Console, run: Run, measurements: Sequence[Measurement]) -> None:
    """The findings, and a table for each rate; latencies in ms."""
    names = titles(measurements)
    found = findings(measurements, names)
    console.print(f"[bold]{escape(found.headline)}[/]", highlight=False)
    for point in found.points:
        console.print(f"- {escape(point)}", highlight=False)
    console.print()
    for rate in rates(measurements):
        there = at_rate(measurements, rate)
        rows = [{"title": names[one.variant], **one.row} for one in there]
        console.print(terminal(f"{run.scenario}, {rate_title(there)}, ms", terminal_columns(), rows))


def print_cautions(stderr: Console, run: Run, measurements: Sequence[Measurement]) -> None:
    """Warnings and notes, one a line, on stderr."""
    doubts = cautions(run, measurements, titles(measurements))
    for line in doubts.warnings:
        stderr.print(f"[bold red]warning:[/] {escape(line)}", highlight=False, soft_wrap=True)
    for line in doubts.notes:
        stderr.print(f"[dim]note: {escape(line)}[/]", highlight=False, soft_wrap=True)


def print_comparisons(console: Console, found: Sequence[Comparison], named: dict[int, str]) -> None:
    """A line per comparison. named: title by the id of a measurement."""
    several = len({run for c in found for run in (c.run_a, c.run_b)}) > 1

    def name(run: str, one: Measurement) -> str:
        return f"{named[id(one)]} ({run})" if several else named[id(one)]

    rows = [
        {
            "plan": name(c.run_a, c.a),
            "against": name(c.run_b, c.b),
            "rate": per_second(c.a.rate),
            "a": ms(c.difference.a),
            "b": ms(c.difference.b),
            "difference": _signed(c.difference.value),
            "interval": f"{_signed(c.difference.low)} to {_signed(c.difference.high)}",
            "percent": "" if c.difference.ratio is None else f"{100 * (c.difference.ratio - 1):+.1f}",
            "repetitions": f"{c.a.row['repetitions']}, {c.b.row['repetitions']}",
            "word": c.difference.word,
        }
        for c in found
    ]
    against = {row["against"] for row in rows}
    title = (
        f"{found[0].statistic}, ms, against {against.pop()}"
        if len(against) == 1
        else f"{found[0].statistic}, ms"
    )
    columns = [
        _column("plan", "plan", False),
        *([_column("against", "against", False)] if against else []),
        _column("rate", "queries/s"),
        _column("a", "ms"),
        _column("b", "against ms"),
        _column("difference", "difference"),
        _column("percent", "%"),
        _column("interval", "95 % interval"),
        _column("repetitions", "rep."),
        _column("word", "", False),
    ]
    once = any(1 in (c.a.row["repetitions"], c.b.row["repetitions"]) for c in found)
    caption = (
        f"Of {len(found)} differences that are none, about {0.05 * len(found):.1f} would be called real."
    )
    if once:
        caption += " With one repetition, what differs from run to run is not in the intervals."
    console.print(terminal(title, columns, rows, caption))


def _column(key: str, title: str, number: bool = True) -> Column:
    return Column(title, lambda row: str(row[key]), number=number)


def _signed(value: float) -> str:
    if math.isinf(value):
        return "never" if value > 0 else "-never"
    return f"{value:+.{0 if abs(value) >= 100 else 1 if abs(value) >= 1 else 2}f}"
