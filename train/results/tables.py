"""Tables of results: for a terminal, and in Markdown for pages that keep them between markers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from rich.table import Table

from parm_ray.core.errors import ConfigError
from train.results.rows import Row
from train.results.store import Results

SUMMARY = "summary"
"""The name of the table that holds one line a code of all files: one loss, all parities at hand."""

GATE = 0.9
_SLOTS_SHOWN = 4
_MARKED = re.compile(r"(<!-- results:begin (\S+) -->\n).*?(<!-- results:end -->)", re.S)


class Column(NamedTuple):
    """A title and what it shows of a row, "" where it has nothing to say."""

    title: str
    show: Callable[[Row], str]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def _plain(number: float | None, digits: int = 0) -> str:
    return "" if number is None else f"{number:.{digits}f}"


def _code(row: Row) -> str:
    if row.lost == 0:
        return "deployed"
    if row.control:
        return f"sum twice ({row.control})"
    name = "/".join(part for part in (row.encoder, row.decoder) if part)
    return f"{name} {row.variant}".strip()


def _slots(row: Row) -> str:
    slots = row.a_d_by_slot or ()
    if len(slots) <= _SLOTS_SHOWN:
        return " ".join(map(_percent, slots))
    return f"{_percent(min(slots))} to {_percent(max(slots))}"


def _gate(row: Row) -> str:
    for threshold, kept, accuracy in row.gate or ():
        if threshold == GATE:
            return f"{_percent(kept)} → {_percent(accuracy)}"
    return ""


def _half(row: Row) -> str:
    return "" if row.interval is None else _percent((row.interval[1] - row.interval[0]) / 2)


def _answered(row: Row) -> str:
    return " ".join(map(str, row.answered)) if (row.r or 1) > 1 else ""


_CODE = [
    Column("code", _code),
    Column("k", lambda row: _plain(row.k)),
    Column("r", lambda row: _plain(row.r)),
]
_ACCURACY = [
    Column("A_a", lambda row: _percent(row.a_a)),
    Column("A_d", lambda row: _percent(row.a_d)),
    Column("±", _half),
]
DETAIL = [
    *_CODE,
    Column("lost", lambda row: _plain(row.lost or None)),
    Column("parities", _answered),
    *_ACCURACY,
    Column("by slot", _slots),
    Column("worst", lambda row: _percent(row.a_d_worst)),
    Column("short", lambda row: _percent(row.a_d_short)),
    Column("agree", lambda row: _percent(row.agreement)),
    Column("top 5", lambda row: _percent(row.top5)),
    Column("A_o 1 %", lambda row: _percent(row.a_o_1)),
    Column("5 %", lambda row: _percent(row.a_o_5)),
    Column("10 %", lambda row: _percent(row.a_o_10)),
    Column("ECE", lambda row: _percent(row.ece)),
    Column("sure", _gate),
    Column("train min", lambda row: _plain(row.train_minutes, 2)),
    Column("ratio", lambda row: _plain(row.train_ratio, 1)),
]
BRIEF = [
    Column("data", lambda row: row.dataset),
    Column("model", lambda row: row.model),
    *_CODE,
    *_ACCURACY,
    Column("agree", lambda row: _percent(row.agreement)),
    Column("A_o 10 %", lambda row: _percent(row.a_o_10)),
    Column("train min", lambda row: _plain(row.train_minutes, 2)),
    Column("ratio", lambda row: _plain(row.train_ratio, 1)),
    Column("seeds", lambda row: _plain(len(row.seeds))),
]


def brief(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of one loss with all parities at hand, the deployed models among them."""
    return [row for row in rows if row.lost <= 1 and len(row.answered) in (0, row.r or 1)]


def cells_of(rows: Sequence[Row], columns: Sequence[Column]) -> tuple[list[str], list[list[str]]]:
    """Return titles and lines of text, without the columns that would be empty."""
    lines = [[column.show(row) for column in columns] for row in rows]
    filled = [at for at in range(len(columns)) if any(line[at] for line in lines)]
    return [columns[at].title for at in filled], [[line[at] for at in filled] for line in lines]


def markdown(rows: Sequence[Row], columns: Sequence[Column] = DETAIL) -> str:
    """Return the rows as a Markdown table, ending in a line break."""
    titles, lines = cells_of(rows, columns)
    table = [titles, ["---"] * len(titles), *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in table)


def rich_tables(rows: Sequence[Row]) -> list[Table]:
    """Return a table for each data set and model."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row.dataset, row.model), []).append(row)
    tables = []
    for (dataset, model), group in grouped.items():
        titles, lines = cells_of(group, DETAIL)
        table = Table(*titles, title=f"{dataset}, {model}")
        for line in lines:
            table.add_row(*line)
        tables.append(table)
    return tables


def named(name: str, results: Mapping[str, Results]) -> str:
    """Return the Markdown table of one file, by its stem, or the summary of all.

    Raises ConfigError if there is no such file.
    """
    if name == SUMMARY:
        return markdown(brief(row for file in results.values() for row in file.rows), BRIEF)
    if name not in results:
        raise ConfigError(f"results: no {name!r}; there are {', '.join((*results, SUMMARY))}")
    return markdown(results[name].rows)


def rewritten(page: str, results: Mapping[str, Results]) -> str:
    """Return the page with the table between each pair of markers made anew. Raises as `named`.

    A pair: `<!-- results:begin NAME -->`, `<!-- results:end -->`, on lines of their own.
    """
    return _MARKED.sub(lambda found: found[1] + "\n" + named(found[2], results) + "\n" + found[3], page)
