"""Recorded traces from files: CSV, Parquet or npy, read into planned send times.

The file holds arrival times in seconds (`times`), dates or epoch seconds that are counted from the
first (`timestamps`), or numbers of arrivals per bin (`counts`); see `parm_ray.workload.traces`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from parm_ray.workload.traces import from_counts, replayed, since_first

Holds = Literal["times", "timestamps", "counts"]
HOLDS = ("times", "timestamps", "counts")
SUFFIXES = (".csv", ".parquet", ".npy")


def planned_from(
    path: Path,
    *,
    holds: Holds = "times",
    column: str | None = None,
    rate: float | None = None,
    offset: float = 0.0,
    duration: float | None = None,
    bin_s: float = 1.0,
    rng: np.random.Generator | None = None,
) -> NDArray[np.float64]:
    """Planned send times in seconds, ascending.

    rate: queries per second on average, None = the trace's own. offset, duration: seconds, which part.
    bin_s, rng: for counts, how long a bin is and what spreads them. Raises OSError for a file that
    cannot be read, ValueError for a trace or arguments that are not legal; the message has the path.
    """
    if holds not in HOLDS:
        raise ValueError(f"holds: expected {', '.join(HOLDS)}, got {holds!r}")
    if holds == "counts" and rng is None:
        raise ValueError("rng: expected a generator, which spreads the counts")
    values = read_column(path, column)
    try:
        if holds == "counts":
            assert rng is not None
            return from_counts(values, rng, bin_s=bin_s, rate=rate, offset=offset, duration=duration)
        # Dates are counted from the first whatever they are called: they have no other zero.
        since = since_first(values) if holds == "timestamps" or values.dtype.kind == "M" else values
        return replayed(since, rate=rate, offset=offset, duration=duration)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_column(path: Path, column: str | None = None) -> NDArray[Any]:
    """One column of a CSV or Parquet file, or an npy file, `[n]`.

    column: its name; may be left out if there is but one. A CSV file whose first line is numbers has no
    header, and its columns are f0, f1, ... Raises OSError or ValueError naming the path and the columns.
    """
    if path.suffix not in SUFFIXES:
        raise ValueError(
            f"{path}: expected a file ending in {', '.join(SUFFIXES)}, got {path.suffix or 'none'}"
        )
    try:
        if path.suffix == ".npy":
            if column is not None:
                raise ValueError(f"an npy file has no columns, got column {column!r}")
            array: NDArray[Any] = np.load(path, allow_pickle=False)
            return array
        return _picked(_csv(path) if path.suffix == ".csv" else _parquet(path), column)
    except ValueError as error:  # pyarrow's own is one too
        raise ValueError(f"{path}: {error}") from None


def _picked(table: Any, column: str | None) -> NDArray[Any]:
    names = table.column_names
    if column is None and len(names) != 1:
        raise ValueError(f"expected the name of one of the columns {', '.join(names)}, got none")
    name = names[0] if column is None else column
    if name not in names:
        raise ValueError(f"expected one of the columns {', '.join(names)}, got {name!r}")
    values = table.column(name)
    if values.null_count:
        empty = next(i for i, value in enumerate(values) if not value.is_valid)
        raise ValueError(f"{name}[{empty}]: expected a value, got an empty cell or NaN")
    read: NDArray[Any] = values.to_numpy()
    return read


def _csv(path: Path) -> Any:
    # Half a second to import; most load runs do without it.
    from pyarrow import csv

    with path.open() as file:
        first = file.readline()
    headless = csv.ReadOptions(autogenerate_column_names=_all_numbers(first.split(",")))
    return csv.read_csv(path, read_options=headless)


def _parquet(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.read_table(path)


def _all_numbers(cells: list[str]) -> bool:
    try:
        return bool([float(cell) for cell in cells])
    except ValueError:
        return False
