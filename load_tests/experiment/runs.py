"""A run directory: `run.json` says what was run, and each cell has a file of records beside it.

A cell is one plan at one rate, once. Its records file is `<id>.parquet` or `<id>.csv`, with the columns
of `ClientRecord`, whoever wrote it: a client of a served system or a simulator.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from load_tests.records import ClientRecord, write_csv, write_parquet

RUN_FILE = "run.json"
FORMS = ("parquet", "csv")

Share = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]


class RunError(ValueError):
    """A run directory that cannot be read; the message names the file, the field and what is legal."""


class _Strict(BaseModel):
    # A nan would be written as null and refused when it is read: refuse it where it is made.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Replica(_Strict):
    """One replica in one cell. busy: busy seconds over measured seconds; calls: how many it answered."""

    name: str
    node: str
    pool: str
    busy: Share
    calls: Count


class Event(_Strict):
    """Something that was done to the system, `t` seconds into the cell.

    An event of kind `X_end`, or `resume` after `stall`, ends the last one of that kind with the same
    `what`. `what`: whom it hit, for a person.
    """

    t: float
    kind: str = Field(min_length=1)
    what: str = ""


class Cell(_Strict):
    """One plan at one rate, once.

    id: stem of the records file. pool: whether parity models have replicas of their own. k, r: slots
    of a group and parity queries for it. rate: planned queries per second; load: the share of the
    deployed pool that the rate was to keep busy. m, n: replicas needed without redundancy, and in all.
    utilization, utilization_all: busy share of the deployed pool and of all replicas, measured.
    extra_work: busy seconds beyond those of the original calls, as a share of them. cpu_busy: of the
    machine's cores. warm_up: leading records that do not count.
    """

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    plan: str = Field(min_length=1)
    title: str = Field(min_length=1)
    pool: Literal["dedicated", "shared"] | None = None
    k: Annotated[int, Field(ge=1)] | None = None
    r: Annotated[int, Field(ge=1)] | None = None
    rate: float = Field(gt=0)
    load: Annotated[float, Field(gt=0)] | None = None
    repetition: Count = 0
    m: Annotated[int, Field(ge=1)]
    n: Annotated[int, Field(ge=1)]
    utilization: Share | None = None
    utilization_all: Share | None = None
    extra_work: float | None = None
    network_bytes: Count | None = None
    cpu_busy: Share | None = None
    warm_up: Count = 0
    replicas: tuple[Replica, ...] = ()
    timeline: tuple[Event, ...] = ()


class Run(_Strict):
    """The content of `run.json`. executor: what ran the queries; date: ISO 8601."""

    format: Literal[1] = 1
    scenario: str = Field(min_length=1)
    executor: Literal["serve", "netlab", "simulator"]
    command: str
    commit: str
    date: str
    machine: dict[str, Any] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    cells: tuple[Cell, ...] = ()
    warnings: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _cells_differ(self) -> Run:
        ids: dict[str, int] = {}
        places: dict[tuple[object, ...], str] = {}
        for i, cell in enumerate(self.cells):
            if cell.id in ids:
                raise ValueError(f"cells.{i}.id: {cell.id!r} is taken by cells.{ids[cell.id]}")
            ids[cell.id] = i
            place = (cell.plan, cell.pool, cell.k, cell.r, cell.rate, cell.load, cell.repetition)
            if place in places:
                raise ValueError(
                    f"cells.{i}.repetition: {cell.id!r} and {places[place]!r} are the same repetition of the "
                    "same plan, pool, k, r, rate and load; number repetitions differently"
                )
            places[place] = cell.id
        return self


@dataclass(frozen=True)
class RunDirectory:
    """A run that was read, and where it lies. Every cell's records file is there."""

    path: Path
    run: Run
    files: dict[str, Path]

    @property
    def name(self) -> str:
        """The directory's name."""
        return self.path.resolve().name


def write_cell(
    directory: Path,
    cell_id: str,
    records: Iterable[ClientRecord],
    form: Literal["parquet", "csv"] = "parquet",
) -> Path:
    """Write one cell's records, as soon as it has ended; return the file."""
    path = directory / f"{cell_id}.{form}"
    return write_parquet(path, records) if form == "parquet" else write_csv(path, records)


def write_run(directory: Path, run: Run) -> Path:
    """Write `run.json`, replacing an older one in a single step; call it again after each cell."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / RUN_FILE
    unfinished = directory / f".{RUN_FILE}.{os.getpid()}"
    try:
        unfinished.write_text(run.model_dump_json(indent=1) + "\n")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def read_run(directory: Path) -> RunDirectory:
    """Read a run directory. Raises RunError if it is not one, or lacks the records of a cell."""
    path = directory / RUN_FILE
    try:
        text = path.read_text()
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        run = Run.model_validate_json(text)
    except ValidationError as error:
        found = [_in_words(path, dict(e)) for e in error.errors(include_url=False)[:5]]
        raise RunError("\n".join(found)) from None
    if not run.cells:
        raise RunError(f"{path}: cells: expected at least one, got none")
    return RunDirectory(directory, run, {cell.id: _records_file(directory, cell.id) for cell in run.cells})


def _records_file(directory: Path, cell_id: str) -> Path:
    there = [path for form in FORMS if (path := directory / f"{cell_id}.{form}").is_file()]
    if len(there) != 1:
        names = " or ".join(f"{cell_id}.{form}" for form in FORMS)
        raise RunError(f"{directory}: cell {cell_id!r}: expected one records file, {names}, got {len(there)}")
    return there[0]


def _in_words(path: Path, error: dict[str, Any]) -> str:
    where = ".".join(map(str, error["loc"]))
    words = error["msg"].removeprefix("Value error, ")
    given = error.get("input")
    got = f", got {given!r}" if isinstance(given, str | int | float) and len(str(given)) < 80 else ""
    return f"{path}: {f'{where}: ' if where else ''}{words}{got}"
