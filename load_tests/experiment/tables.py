"""The columns of the result rows, shared by the terminal and the page, and the CSV file."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from load_tests.experiment.resample import FIGURES
from load_tests.experiment.rows import Row
from load_tests.tables import Column, ms, percent
from parm_ray.core import Outcome

Better = Literal["low", "high"] | None


@dataclass(frozen=True)
class Shown:
    """A column of results. key: the row's field; better: which of two values is; below: a second line."""

    key: str
    column: Column
    better: Better = None
    below: Callable[[Row], str] | None = None


def _shown(
    key: str,
    title: str,
    form: Callable[[Any], str],
    better: Better = None,
    below: Callable[[Row], str] | None = None,
    short: str = "",
) -> Shown:
    return Shown(key, Column(title, lambda row: form(row.get(key)), short=short), better, below)


def _interval(key: str) -> Callable[[Row], str]:
    def words(row: Row) -> str:
        low, high = row[f"{key}_interval"]
        return "" if math.isinf(low) else f"{ms(low)} to {ms(high)}"

    return words


def _gap_ratio(row: Row) -> str:
    return "" if row["gap_ratio"] is None else f"{row['gap_ratio']:.2f} of E.R."


def _of_reconstructed(row: Row) -> str:
    share = row["accuracy_reconstructed"]
    return "" if share is None else f"recon. {percent(share)}"


def _other_origins(row: Row) -> str:
    others = [
        outcome.value for outcome in Outcome if outcome not in (Outcome.ORIGINAL, Outcome.RECONSTRUCTED)
    ]
    return ", ".join(f"{name} {percent(row[name])}" for name in others if row.get(name))


def _plain(value: Any) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _bytes(value: float | None) -> str:
    if value is None:
        return "-"
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if value >= 100 or unit == "B" else f"{value:.1f} {unit}"


RESULTS = (
    _shown("utilization", "util.", percent),
    _shown("p50_ms", "p50", ms, "low", _interval("p50_ms")),
    _shown("mean_ms", "mean", ms, "low"),
    _shown("p90_ms", "p90", ms, "low"),
    _shown("p99_ms", "p99", ms, "low", _interval("p99_ms")),
    _shown("p995_ms", "p99.5", ms, "low"),
    _shown("p999_ms", "p99.9", ms, "low", _interval("p999_ms")),
    _shown("gap_ms", "gap", ms, "low", _gap_ratio),
    _shown("reconstructed", "recon.", percent, None, _other_origins),
    _shown("accuracy", "accuracy", percent, "high", _of_reconstructed, short="acc."),
    _shown("errors", "failed", _plain),
)
COSTS = (
    _shown("utilization", "utilisation", percent),
    _shown("utilization_all", "of all replicas", percent),
    _shown("extra_work", "extra work", percent, "low"),
    _shown("network_bytes", "network", _bytes, "low"),
    _shown("queries", "queries", _plain),
    _shown("repetitions", "repetitions", _plain),
)
_WIDE = ("mean_ms", "p90_ms", "p995_ms")


def terminal_columns() -> tuple[Column, ...]:
    """The columns that fit 130 characters, latencies in ms; the plan's title is the row's field `title`."""
    plan = Column("plan", lambda row: str(row["title"]), number=False)
    more = (_shown("gap_ratio", "of E.R.", _ratio), _shown("queries", "queries", _plain))
    shown = [one for one in RESULTS if one.key not in _WIDE]
    shown.insert(5, more[0])
    return (plan, *[one.column for one in (*shown, more[1])])


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    """Write the rows as CSV: an interval as two columns, None as an empty cell, `inf` for never."""
    flat = [_flat(row) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(flat)
    return path


def _flat(row: Row) -> Row:
    flat = dict(row)
    for name in FIGURES:
        low, high = flat.pop(f"{name}_interval")
        flat |= {f"{name}_interval_low": low, f"{name}_interval_high": high}
    return flat
