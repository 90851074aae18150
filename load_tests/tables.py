"""The columns of the result tables, shared by the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich import box
from rich.table import Table

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One column: its title, its cell from a row, whether it holds numbers (aligned right), a short title."""

    title: str
    cell: Callable[[Row], str]
    number: bool = True
    short: str = ""


def ms(value: float | None) -> str:
    """Milliseconds for a table; the failed count as infinitely late."""
    if value is None or math.isinf(value):
        return "never"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share 0..1 as a percentage; a dash if it is not known."""
    return "-" if share is None or math.isnan(share) else f"{100 * share:.{digits}f} %"


def _field(name: str, form: Callable[[Any], str] = str) -> Callable[[Row], str]:
    return lambda row: form(row[name])


LATENCY = (
    Column("p50 ms", _field("p50_ms", ms)),
    Column("p90 ms", _field("p90_ms", ms)),
    Column("p99 ms", _field("p99_ms", ms)),
    Column("p99.9 ms", _field("p999_ms", ms)),
    Column("errors", _field("errors")),
    Column("reconstructed", _field("reconstructed_share", percent), short="recon."),
)
PLANS = (
    Column("plan", _field("title"), number=False),
    Column("replicas", _field("replicas")),
    *LATENCY,
    Column("accuracy", _field("accuracy", percent), short="acc."),
    Column("utilisation", _field("utilization", percent), short="util."),
    Column("queries", _field("queries"), short="n"),
)
FAULTS = (
    Column("queries planned", lambda row: row["title"], number=False),
    Column("n", _field("queries")),
    *LATENCY,
    Column("accuracy", _field("accuracy", percent), short="acc."),
)
RUNS = (Column("run", _field("title"), number=False), *FAULTS[1:])
ACCURACY = (
    Column("encoder", _field("encoder"), number=False),
    Column("decoder", _field("decoder"), number=False),
    Column("k", _field("k")),
    Column("A_a", _field("a_a", percent)),
    Column("A_d", _field("a_d", percent)),
)


def terminal(title: str, columns: Sequence[Column], rows: Sequence[Row], caption: str = "") -> Table:
    """The table for a terminal."""
    table = Table(
        box=box.SIMPLE_HEAD,
        title=title,
        title_justify="left",
        caption=caption or None,
        caption_justify="left",
    )
    for column in columns:
        justify: Literal["right", "left"] = "right" if column.number else "left"
        table.add_column(column.short or column.title, justify=justify, no_wrap=True)
    for row in rows:
        table.add_row(*[column.cell(row) for column in columns])
    return table
