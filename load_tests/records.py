"""One record per query, as a CSV or Parquet file: recorded first, reported later."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parm_ray.core import Outcome


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """One query as its sender saw it. Times are seconds from the start of the run.

    planned: when it was to be sent; sent: when it was; done: when its last byte, or its failure, arrived.
    status: HTTP status, 0 if there was no response. outcome: the server's word; `failed` for every query
    without an answer, and then `error` says why. group, slot: where it stood, if in a group. lateness_ms:
    how long after its hold-off a stand-in answer was used. predicted, label: top class and truth, if known.
    """

    query: int
    planned: float
    sent: float
    done: float
    status: int
    outcome: Outcome
    group: int | None = None
    slot: int | None = None
    lateness_ms: float = 0.0
    predicted: int | None = None
    label: int | None = None
    error: str = ""

    @property
    def answered(self) -> bool:
        """Whether there was an answer, of whatever kind."""
        return self.outcome is not Outcome.FAILED

    @property
    def latency_s(self) -> float:
        """Seconds from the planned send time to the end: what a user would have waited. inf if failed."""
        return self.done - self.planned if self.answered else math.inf

    @property
    def send_lateness_s(self) -> float:
        """Seconds by which the generator itself was late."""
        return self.sent - self.planned

    @property
    def correct(self) -> bool | None:
        """Whether the top class is the label; None if either is unknown."""
        if self.predicted is None or self.label is None:
            return None
        return self.predicted == self.label


NAMES = tuple(f.name for f in fields(ClientRecord))


def write_csv(path: Path, records: Iterable[ClientRecord]) -> Path:
    """Write the records with a header line; times to the microsecond, None as an empty cell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(NAMES)
        writer.writerows([_cell(getattr(record, name)) for name in NAMES] for record in records)
    return path


def read_csv(path: Path) -> list[ClientRecord]:
    """Read what `write_csv` wrote. Raises KeyError or ValueError for anything else."""
    with path.open(newline="") as file:
        return [_record(row) for row in csv.DictReader(file)]


def write_parquet(path: Path, records: Iterable[ClientRecord]) -> Path:
    """Write the records as a Parquet file with the columns of `ClientRecord`; it appears whole or not at all.

    Fits many records: a tenth of the CSV file's size, and a column is read without the others.
    """
    pa, parquet = _arrow()
    rows = list(records)
    columns = [[_plain(getattr(row, name)) for row in rows] for name in NAMES]
    kinds = {"int": pa.int64(), "float": pa.float64(), "str": pa.string(), "Outcome": pa.string()}
    types = [kinds[str(f.type).split(" ")[0]] for f in fields(ClientRecord)]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        parquet.write_table(pa.table(dict(zip(NAMES, arrays, strict=True))), unfinished, compression="zstd")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def read_parquet(path: Path) -> list[ClientRecord]:
    """Read what `write_parquet` wrote. Raises KeyError or ValueError for anything else."""
    _, parquet = _arrow()
    table = parquet.read_table(path)
    missing = sorted(set(NAMES) - set(table.column_names))
    if missing:
        raise KeyError(missing[0])
    columns = {name: table.column(name).to_pylist() for name in NAMES}
    columns["outcome"] = [Outcome(value) for value in columns["outcome"]]
    return [ClientRecord(*row) for row in zip(*columns.values(), strict=True)]


def latencies(records: Sequence[ClientRecord]) -> NDArray[np.float64]:
    """Latencies in seconds of the answered queries, in order of planned time."""
    return np.array([r.latency_s for r in records if r.answered], dtype=np.float64)


def failures(records: Sequence[ClientRecord]) -> int:
    """How many queries got no answer."""
    return sum(not r.answered for r in records)


def _arrow() -> tuple[Any, Any]:
    # Half a second to import, and plain load runs do without it.
    import pyarrow
    from pyarrow import parquet

    return pyarrow, parquet


def _plain(value: object) -> object:
    return value.value if isinstance(value, Outcome) else value


def _cell(value: object) -> object:
    if isinstance(value, Outcome):
        return value.value
    return f"{value:.6f}" if isinstance(value, float) else value


def _record(row: dict[str, str]) -> ClientRecord:
    def maybe(name: str) -> int | None:
        return int(row[name]) if row[name] else None

    return ClientRecord(
        query=int(row["query"]),
        planned=float(row["planned"]),
        sent=float(row["sent"]),
        done=float(row["done"]),
        status=int(row["status"]),
        outcome=Outcome(row["outcome"]),
        group=maybe("group"),
        slot=maybe("slot"),
        lateness_ms=float(row["lateness_ms"]),
        predicted=maybe("predicted"),
        label=maybe("label"),
        error=row["error"],
    )
