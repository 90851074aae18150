from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from test_load_experiment_data import PLANS, make_run

from load_tests import report
from load_tests.records import read_parquet, write_csv


@pytest.fixture
def run(tmp_path: Path) -> Path:
    make_run(tmp_path / "run", plans=PLANS[:4], loads=(0.4, 0.6), queries=300)
    return tmp_path / "run"


def test_a_run_is_reported_everywhere(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, table = tmp_path / "deep" / "page.html", tmp_path / "flat" / "rows.csv"
    assert report.main([str(run), "--html", str(page), "--csv", str(table)]) == 0
    out, err = capsys.readouterr()
    assert "made up, 163 queries/s, 40 % load, ms" in out
    assert "Concatenation, slot decoder" in out
    assert "…" not in out
    assert "note: Every plan ran once" in err
    assert page.read_text().startswith("<!doctype html>")
    rows = list(csv.DictReader(table.open()))
    assert len(rows) == 8
    assert float(rows[0]["p99_ms_interval_low"]) <= float(rows[0]["p99_ms"]) <= float(rows[0]["p99_ms_max"])
    assert rows[0]["k"] == ""


def test_rows_as_json_are_alone_on_stdout(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main([str(run), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["plan"], round(row["rate"])) for row in rows] == [
        (plan, rate)
        for plan in ("none", "equal_resources", "sum_subtract", "concat_slot")
        for rate in (163, 244)
    ]


def test_files_of_records_are_reported_as_before(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parquet = run / "none-40-0.parquet"
    plain = write_csv(tmp_path / "records_plain.csv", read_parquet(parquet))
    assert report.main([str(plain), str(parquet)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if " 300 " in line]
    assert [line[0] for line in lines] == ["plain", "none-40-0"]
    assert lines[0][1:] == lines[1][1:]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["RUN", "RUN"], "expected one run directory, got 2 paths"),
        (["EMPTY"], "run.json: cannot be read"),
        (["RUN/none-40-0.parquet", "--json"], "--json: expected a run directory"),
        (["RUN/run.json"], "KeyError"),
        (["RUN", "--html", "RUN"], "Is a directory"),
    ],
)
def test_what_cannot_be_reported_is_said(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    (tmp_path / "EMPTY").mkdir()
    places = [word.replace("RUN", str(run)).replace("EMPTY", str(tmp_path / "EMPTY")) for word in words]
    assert report.main(places) == 2
    assert message in capsys.readouterr().err
