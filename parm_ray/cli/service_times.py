"""Service times from where people have them: files of latencies, load-test records, a running application."""

from __future__ import annotations

import csv
import json
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parm_ray.advisor.observed import Pools, workload_of
from parm_ray.core import ConfigError
from parm_ray.stats.censored import kaplan_meier
from parm_ray.stats.copies import Service
from parm_ray.stats.families import Empirical
from parm_ray.stats.trust import LEAST

Numbers = NDArray[np.float64]

# Columns that are looked for if none is named.
KNOWN = ("service_s", "service_ms", "latency_s", "latency_ms", "seconds", "ms")
RECORDS = ("planned", "sent", "done", "outcome")
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}

# Of more times a random part is used: it tells as much, and a minute sooner.
MOST = 100_000


@dataclass(frozen=True)
class Found:
    """Service times and what came with them: the law of a call, pairs `[n, 2]` in seconds, queries per
    second, replicas, and what has to be said about the source.
    """

    service: Service
    pairs: Numbers | None = None
    rate: float | None = None
    replicas: int | None = None
    notes: tuple[str, ...] = field(default=())


def read_times(path: Path, column: str | None = None, unit: str | None = None) -> Found:
    """Return what a CSV or Parquet file holds: a column of latencies, or load-test records.

    A column `observed` (or `ended`) of 0 and 1 beside the times marks calls that were cut off as 0. Raises
    ConfigError that names the file, the column and the row.
    """
    table = _table(path)
    if column is None and all(name in table for name in RECORDS):
        return _records(path, table)
    name, scale = _column(path, table, column, unit)
    times = scale * _numbers(path, name, table[name])
    mark = next((name for name in ("observed", "ended") if name in table), None)
    ended = np.ones(len(times), bool) if mark is None else _numbers(path, mark, table[mark]) != 0
    part, thinned = _thinned(len(times))
    service, notes = _censored(times[part], ended[part])
    return Found(service, notes=(*thinned, *notes))


def read_pairs(path: Path, unit: str | None = None) -> Numbers:
    """Return the two columns of a file, seconds, `[n, 2]`. Raises ConfigError, for too few rows, too."""
    table = _table(path)
    if len(table) != 2:
        raise ConfigError(
            f"{path}: expected two columns, the times of a query that was served twice, got {len(table)}"
        )
    columns = [_scale(path, name, unit) * _numbers(path, name, table[name]) for name in table]
    if len(columns[0]) < LEAST:
        raise ConfigError(f"{path}: expected at least {LEAST} pairs, got {len(columns[0])}")
    return np.stack(columns, axis=1)


def read_application(url: str) -> Found:
    """Return what a running application has observed; url: its `.../observations`. Raises ConfigError."""
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"--url: expected http://..., got {url!r}")
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            seen: Any = json.load(answer)
    except (OSError, HTTPException, ValueError) as error:
        raise ConfigError(f"--url: {url}: no observations there ({error})") from None
    try:
        found = workload_of([seen], Pools())
        slots = sum(pool["replicas"] * pool["slots"] for pool in seen["pools"].values())
    except (KeyError, TypeError, AttributeError):
        raise ConfigError(f"--url: {url}: expected observations, got something else") from None
    except ValueError as error:
        raise ConfigError(f"--url: {url}: {error}") from None
    notes = ["the rate is what this ingress replica saw: with several, give --rate"]
    if found.censored:
        notes.append(f"{found.censored} calls were cut off or still run, and count as longer")
    return Found(found.workload.service, found.pairs, found.workload.rate, slots, tuple(notes))


def _records(path: Path, table: Mapping[str, Sequence[str]]) -> Found:
    answered = [i for i, outcome in enumerate(table["outcome"]) if outcome == "original"]
    if not answered:
        raise ConfigError(f"{path}: outcome: expected queries that the deployed model answered, got none")
    sent, done = (_numbers(path, name, [table[name][i] for i in answered]) for name in ("sent", "done"))
    planned = _numbers(path, "planned", table["planned"])
    span = float(np.ptp(planned))
    left_out = len(table["outcome"]) - len(answered)
    notes = ["latencies of load-test records include waiting: use a run at low load"]
    if left_out:
        # The slow ones, mostly: their own answers were not waited for.
        notes.append(f"{left_out} queries had no answer of the deployed model's own and are left out")
    part, thinned = _thinned(len(done))
    notes += thinned
    return Found(
        Empirical((done - sent)[part]), rate=len(planned) / span if span > 0 else None, notes=tuple(notes)
    )


def _censored(times: Numbers, ended: NDArray[np.bool_]) -> tuple[Service, tuple[str, ...]]:
    if ended.all():
        return Empirical(times), ()
    try:
        return kaplan_meier(times, ended), (f"{np.sum(~ended)} calls were cut off, and count as longer",)
    except ValueError as error:
        if not ended.any():
            raise ConfigError(f"observed: {error}") from None
        note = "the longest calls were cut off, so that the tail is longer than it looks: let some run on"
        return kaplan_meier(times, ended, close=True), (note,)


def _table(path: Path) -> dict[str, Sequence[Any]]:
    try:
        if path.suffix == ".parquet":
            return _parquet(path)
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: not a CSV file ({error})") from None
    if not rows:
        raise ConfigError(f"{path}: expected latencies, the file is empty")
    try:
        float(rows[0][0])
        names = [str(i) for i in range(len(rows[0]))] if len(rows[0]) > 1 else ["seconds"]
    except ValueError:
        names, rows = [name.strip() for name in rows[0]], rows[1:]
    wrong = next((i for i, row in enumerate(rows) if len(row) != len(names)), None)
    if wrong is not None:
        raise ConfigError(f"{path}: row {wrong + 1}: expected {len(names)} cells, got {len(rows[wrong])}")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def _parquet(path: Path) -> dict[str, Sequence[Any]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ConfigError(f"{path}: reading Parquet needs pyarrow: pip install 'parm_ray[load]'") from None
    try:
        table = parquet.read_table(path)
    except ArrowException as error:
        raise ConfigError(f"{path}: not a Parquet file ({error})") from None
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _column(path: Path, table: Mapping[str, Any], name: str | None, unit: str | None) -> tuple[str, float]:
    if name is None:
        name = next((known for known in KNOWN if known in table), None)
        if name is None and len(table) == 1:
            (name,) = table
        if name is None:
            raise ConfigError(
                f"{path}: --column: expected which of {', '.join(table)} has the times; "
                f"{', '.join(KNOWN)} are found by themselves"
            )
    if name not in table:
        raise ConfigError(f"{path}: --column: expected one of {', '.join(table)}, got {name}")
    return name, _scale(path, name, unit)


def _scale(path: Path, name: str, unit: str | None) -> float:
    """Seconds of a column's unit: given, by the end of its name, or seconds where there are no names."""
    if unit is None:
        last = name.rpartition("_")[2]
        unit = {"seconds": "s"}.get(last, last)
    if unit.isdigit():
        return 1.0
    if unit not in UNITS:
        raise ConfigError(f"{path}: --unit: expected one of {', '.join(UNITS)} for column {name}, got none")
    return UNITS[unit]


def _thinned(n: int) -> tuple[NDArray[np.intp] | slice, tuple[str, ...]]:
    if n <= MOST:
        return slice(None), ()
    part = np.random.default_rng(0).choice(n, MOST, replace=False)
    return part, (f"of {n} times a random {MOST} are used",)


def _numbers(path: Path, name: str, cells: Sequence[Any]) -> Numbers:
    words = {"true": 1.0, "false": 0.0}
    found = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            found[row] = words.get(str(cell).lower(), cell)
        except (TypeError, ValueError):
            raise ConfigError(f"{path}: {name}: row {row + 1}: expected a number, got {cell!r}") from None
    bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if len(bad):
        raise ConfigError(
            f"{path}: {name}: row {bad[0] + 1}: expected a finite number >= 0, got {cells[bad[0]]}"
        )
    if not len(found):
        raise ConfigError(f"{path}: {name}: expected numbers, got none")
    return found
