"""The records of one cell as numpy columns: what statistics and charts read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv, parquet

from load_tests.experiment.runs import RunDirectory, RunError
from parm_ray.core import Outcome

Floats = NDArray[np.float64]
OUTCOMES = tuple(Outcome)
_NEEDED = {
    "planned": pa.float64(),
    "sent": pa.float64(),
    "done": pa.float64(),
    "outcome": pa.string(),
    "predicted": pa.int64(),
    "label": pa.int64(),
}


@dataclass(frozen=True)
class Columns:
    """Records in order of planned time, one entry a query in every array.

    planned: seconds from the start of the cell. latency: ms from the planned time, inf if failed.
    send_lateness: ms by which the generator was late. outcome: index into `OUTCOMES`.
    correct: 1 right, 0 wrong, -1 not known.
    """

    planned: Floats
    latency: Floats
    send_lateness: Floats
    outcome: NDArray[np.int8]
    correct: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.planned)

    @cached_property
    def answered(self) -> NDArray[np.bool_]:
        """Which queries got an answer, of whatever kind."""
        return self.outcome != OUTCOMES.index(Outcome.FAILED)

    def after(self, warm_up: int) -> Columns:
        """Without the first `warm_up` queries."""
        rest = slice(warm_up, None)
        return Columns(
            self.planned[rest],
            self.latency[rest],
            self.send_lateness[rest],
            self.outcome[rest],
            self.correct[rest],
        )

    def count(self, outcome: Outcome) -> int:
        """How many queries ended so."""
        return int(np.count_nonzero(self.outcome == OUTCOMES.index(outcome)))

    def judged(self, outcome: Outcome) -> tuple[int, int]:
        """(right, known) of the answers with this outcome."""
        correct = self.correct[self.outcome == OUTCOMES.index(outcome)]
        return int(np.count_nonzero(correct == 1)), int(np.count_nonzero(correct >= 0))


def read_cell(directory: RunDirectory, cell_id: str, warm_up: int) -> Columns:
    """The counted records of a cell. Raises RunError for a file that does not hold records, or no more."""
    path = directory.files[cell_id]
    columns = read_columns(path)
    if warm_up >= len(columns):
        raise RunError(
            f"{directory.path}: cell {cell_id!r}: warm_up: expected fewer than the {len(columns)} records, "
            f"got {warm_up}"
        )
    return columns.after(warm_up)


def read_columns(path: Path) -> Columns:
    """Read a records file, `.parquet` or `.csv`. Raises RunError naming the file and the column."""
    try:
        table = _csv(path) if path.suffix == ".csv" else _parquet(path)
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"{path}: not a file of records ({error})") from None
    for name, kind in _NEEDED.items():
        if name not in table.column_names:
            raise RunError(f"{path}: {name}: no such column; records have {', '.join(_NEEDED)} and more")
        try:
            column = table.column(name).cast(kind)
        except pa.ArrowException as error:
            raise RunError(f"{path}: {name}: expected {kind} ({error})") from None
        table = table.set_column(table.column_names.index(name), name, column)
    return _checked(path, table.sort_by("planned") if not _in_order(table) else table)


def _csv(path: Path) -> pa.Table:
    table = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=_NEEDED))
    return table.select([name for name in _NEEDED if name in table.column_names])


def _parquet(path: Path) -> pa.Table:
    there = parquet.read_schema(path).names
    return parquet.read_table(path, columns=[name for name in _NEEDED if name in there])


def _in_order(table: pa.Table) -> bool:
    planned = table.column("planned").to_numpy()
    return bool(np.all(planned[1:] >= planned[:-1]))


def _checked(path: Path, table: pa.Table) -> Columns:
    planned, sent, done = (_floats(path, table, name) for name in ("planned", "sent", "done"))
    names = [outcome.value for outcome in OUTCOMES]
    index = pc.index_in(table.column("outcome"), value_set=pa.array(names))
    if index.null_count:
        unknown = next(v for v in table.column("outcome").to_pylist() if v not in names)
        raise RunError(f"{path}: outcome: expected one of {', '.join(names)}, got {unknown!r}")
    outcome = index.to_numpy().astype(np.int8)
    latency = (done - planned) * 1e3
    if len(latency) and latency.min() < 0:
        at = int(latency.argmin())
        raise RunError(f"{path}: done: expected >= planned, got {done[at]:g} after planned {planned[at]:g}")
    latency[outcome == OUTCOMES.index(Outcome.FAILED)] = np.inf
    same = pc.cast(pc.equal(table.column("predicted"), table.column("label")), pa.int8())
    correct = pc.fill_null(same, -1).to_numpy().astype(np.int8)
    return Columns(planned, latency, (sent - planned) * 1e3, outcome, correct)


def _floats(path: Path, table: pa.Table, name: str) -> Floats:
    values = np.array(table.column(name).to_numpy(), dtype=np.float64)
    if not np.isfinite(values).all():
        at = int(np.flatnonzero(~np.isfinite(values))[0])
        raise RunError(f"{path}: {name}: expected finite seconds, got {values[at]} in record {at}")
    return values
