from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from test_load_experiment_data import PLANS, make_run

from load_tests.experiment.columns import OUTCOMES, read_cell, read_columns
from load_tests.experiment.runs import Cell, Run, RunError, read_run, write_cell, write_run
from load_tests.records import ClientRecord, read_parquet, write_csv, write_parquet
from parm_ray.core import Outcome

RECORDS = [
    ClientRecord(0, 0.5, 0.501, 0.510, 200, Outcome.ORIGINAL, 0, 0, 0.0, 3, 3),
    ClientRecord(1, 1.0, 1.001, 1.030, 200, Outcome.RECONSTRUCTED, 0, 1, 2.5, 3, 4),
    ClientRecord(2, 1.5, 1.502, 9.500, 0, Outcome.FAILED, label=1, error="timeout, after all"),
    ClientRecord(3, 2.0, 2.000, 2.040, 200, Outcome.DEFAULT, predicted=1),
]
CELL = {"id": "a-1", "plan": "a", "title": "A", "rate": 10.0, "m": 4, "n": 6}
RUN = {"scenario": "s", "executor": "serve", "command": "c", "commit": "0", "date": "2026-01-01"}


def document(**changes: object) -> dict:
    return {"format": 1, **RUN, "cells": [CELL], **changes}


def written(directory: Path, content: object) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "run.json").write_text(json.dumps(content))
    write_cell(directory, "a-1", RECORDS)
    return directory


def test_records_survive_a_parquet_file(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "deep" / "a.parquet", iter(RECORDS))
    assert read_parquet(path) == RECORDS
    assert [p.name for p in path.parent.iterdir()] == ["a.parquet"]


def test_records_without_a_query_are_a_file_too(tmp_path: Path) -> None:
    assert read_parquet(write_parquet(tmp_path / "a.parquet", [])) == []


@pytest.mark.parametrize("write", [write_parquet, write_csv])
def test_columns_are_the_same_from_either_form_and_in_planned_order(tmp_path: Path, write) -> None:
    suffix = write.__name__.removeprefix("write_")
    columns = read_columns(write(tmp_path / f"a.{suffix}", [RECORDS[i] for i in (2, 0, 3, 1)]))
    assert columns.planned.tolist() == [0.5, 1.0, 1.5, 2.0]
    assert columns.latency == pytest.approx([10, 30, np.inf, 40])
    assert columns.send_lateness == pytest.approx([1, 1, 2, 0])
    assert [OUTCOMES[i] for i in columns.outcome] == [record.outcome for record in RECORDS]
    assert columns.correct.tolist() == [1, 0, -1, -1]
    assert columns.judged(Outcome.ORIGINAL) == (1, 1)
    assert columns.judged(Outcome.RECONSTRUCTED) == (0, 1)
    assert columns.count(Outcome.FAILED) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("original", "guessed"), "outcome: expected one of original, "),
        (lambda text: text.replace("outcome", "result"), "outcome: no such column"),
        (lambda text: text.replace("0.510000", "0.410000"), "done: expected >= planned"),
        (lambda text: text.replace("0.510000", "nan"), "done: expected finite seconds, got nan in record 0"),
        (lambda text: text.replace("0.510000", "soon"), "not a file of records"),
    ],
)
def test_records_that_are_not_say_what_is_wrong(tmp_path: Path, change, words: str) -> None:
    path = write_csv(tmp_path / "a.csv", RECORDS)
    path.write_text(change(path.read_text()))
    with pytest.raises(RunError, match=words) as raised:
        read_columns(path)
    assert str(path) in str(raised.value)


def test_a_parquet_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("no")
    with pytest.raises(RunError, match="not a file of records"):
        read_columns(tmp_path / "a.parquet")


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_run_survives_its_directory(tmp_path: Path, form: str) -> None:
    made = make_run(tmp_path / "run", plans=PLANS[:2], loads=(0.5,), queries=60, form=form)
    again = read_run(tmp_path / "run")
    assert again == made
    assert again.name == "run"
    assert {path.suffix for path in again.files.values()} == {f".{form}"}
    cell = again.run.cells[0]
    assert len(read_cell(again, cell.id, 0)) == 60
    assert len(read_cell(again, cell.id, 10)) == 50
    assert read_cell(again, cell.id, 10).planned[0] == read_cell(again, cell.id, 0).planned[10]
    with pytest.raises(RunError, match="warm_up: expected fewer than the 60 records, got 60"):
        read_cell(again, cell.id, 60)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (document(format=2), "format: Input should be 1, got 2"),
        (document(author="me"), "author: Extra inputs are not permitted"),
        (
            document(executor="magic"),
            "executor: Input should be 'serve', 'netlab' or 'simulator', got 'magic'",
        ),
        (document(cells=[{**CELL, "pool": "both"}]), "cells.0.pool: .*, got 'both'"),
        (document(cells=[{**CELL, "rate": 0}]), "cells.0.rate: Input should be greater than 0, got 0"),
        (document(cells=[{**CELL, "colour": 1}]), "cells.0.colour: Extra inputs"),
        (document(cells=[{**CELL, "id": "../a"}]), "cells.0.id: .*, got '../a'"),
        (document(cells=[CELL, CELL]), "cells.1.id: 'a-1' is taken by cells.0"),
        (document(cells=[CELL, {**CELL, "id": "b"}]), "cells.1.repetition: 'b' and 'a-1' are the same"),
        (document(cells=[]), "cells: expected at least one"),
        ({}, "scenario: Field required"),
        ([], "Input should be an object"),
    ],
)
def test_what_is_wrong_in_run_json_is_named(tmp_path: Path, content: object, words: str) -> None:
    with pytest.raises(RunError, match=words) as raised:
        read_run(written(tmp_path / "run", content))
    assert "run.json" in str(raised.value)


def test_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"run.json: cannot be read \(No such file"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RunError, match="Invalid JSON"):
        read_run(tmp_path)


def test_a_cell_needs_exactly_one_file(tmp_path: Path) -> None:
    run = written(tmp_path / "run", document())
    write_cell(run, "a-1", RECORDS, "csv")
    with pytest.raises(RunError, match=r"cell 'a-1': expected one records file, .*, got 2"):
        read_run(run)
    (run / "a-1.csv").unlink()
    assert read_run(run).run.cells[0].id == "a-1"
    (run / "a-1.parquet").unlink()
    with pytest.raises(RunError, match="got 0"):
        read_run(run)


def test_run_json_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(**RUN, cells=(Cell(**CELL),))
    path = write_run(tmp_path / "new", run)
    before = path.read_text()

    def fail(self: Path, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_run(tmp_path / "new", Run(**RUN))
    assert path.read_text() == before
    assert [p.name for p in path.parent.iterdir()] == ["run.json"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_json_lacks_are_refused_where_they_are_made(value: float) -> None:
    with pytest.raises(ValidationError):
        Cell(**CELL, utilization=value)
