from __future__ import annotations

import json
from pathlib import Path

import pytest

from load_tests.faults import FaultEvent
from load_tests.phase import Phase
from load_tests.records import ClientRecord, read_csv, write_csv
from load_tests.results import accuracy_rows, fault_rows, latency_row, plan_row, write_json
from parm_ray.core import Outcome


def record(i: int, latency_s: float, outcome: Outcome = Outcome.ORIGINAL, right: bool = True) -> ClientRecord:
    failed = outcome is Outcome.FAILED
    return ClientRecord(
        i,
        float(i),
        i + 0.001,
        i + latency_s,
        0 if failed else 200,
        outcome,
        predicted=None if failed else 3,
        label=3 if right else 4,
        error="timeout" if failed else "",
    )


RECORDS = [
    record(0, 0.010),
    record(1, 0.020),
    record(2, 0.030, Outcome.RECONSTRUCTED, right=False),
    record(3, 0.040, Outcome.FAILED),
]


def test_a_row_counts_failures_as_never_answered() -> None:
    row = latency_row(RECORDS)
    assert (row["queries"], row["errors"], row["error_reasons"]) == (4, 1, {"timeout": 1})
    assert (row["p50_ms"], row["p99_ms"]) == (20.0, float("inf"))
    assert row["reconstructed"] == 1
    assert row["reconstructed_share"] == pytest.approx(1 / 3, abs=1e-5)
    assert row["accuracy"] == pytest.approx(2 / 3, abs=1e-5)
    assert row["accuracy_reconstructed"] == 0.0
    assert row["send_lateness_p99_ms"] == pytest.approx(1.0)
    assert row["generator_lagged"] is False


def test_a_late_generator_is_marked() -> None:
    late = [ClientRecord(i, float(i), i + 0.05, i + 0.06, 200, Outcome.ORIGINAL) for i in range(10)]
    assert latency_row(late)["generator_lagged"] is True


def test_a_plan_row_carries_utilisation() -> None:
    before = {"pools": {"deployed": {"replicas": 4, "slots": 1, "busy_s": 2.0}}, "time_s": 10.0}
    after = {"pools": {"deployed": {"replicas": 4, "slots": 1, "busy_s": 14.0}}, "time_s": 20.0}
    row = plan_row("none", 4, 6, Phase(RECORDS[:3], before, after, 0.5, []))
    assert row["utilization"] == 0.3
    assert (row["plan"], row["m"], row["n"], row["cpu_busy"]) == ("none", 4, 6, 0.5)
    low, high = row["p99_interval_ms"]
    assert low <= row["p99_ms"] <= high


def test_fault_rows_cover_the_phase_and_each_fault() -> None:
    records = [record(i, 0.01) for i in range(30)]
    events = [FaultEvent(3.0, "stall", 1), FaultEvent(8.0, "resume", 1), FaultEvent(12.0, "kill", 2)]
    rows = fault_rows(records, events)
    assert [(r["fault"], r["queries"]) for r in rows] == [("whole phase", 30), ("stall", 5), ("kill", 5)]


def test_infinities_are_null_in_json(tmp_path: Path) -> None:
    text = write_json(
        tmp_path / "a" / "results.json", {"rows": [{"x": float("inf"), "y": (1, float("nan"))}]}
    )
    assert json.loads(text) == {"rows": [{"x": None, "y": [1, None]}]}
    assert json.loads((tmp_path / "a" / "results.json").read_text()) == json.loads(text)


def test_accuracy_comes_from_parity_manifests(tmp_path: Path) -> None:
    def artefact(name: str, code: dict | None, metrics: dict) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(json.dumps({"code": code, "metrics": metrics}))

    artefact("deployed", None, {"a_a": 0.9})
    artefact("k4", {"encoder": "concat", "decoder": "slot", "k": 4}, {"a_a": 0.9, "a_d": 0.7})
    artefact("k2", {"encoder": "sum", "decoder": "subtract", "k": 2}, {"a_a": 0.9, "a_d": 0.8})
    artefact("row1", {"encoder": "weighted", "decoder": "subtract", "k": 2, "r": 2, "row": 1}, {"a_d": 0.8})
    assert accuracy_rows(tmp_path) == [
        {"encoder": "sum", "decoder": "subtract", "k": 2, "r": 1, "a_a": 0.9, "a_d": 0.8},
        {"encoder": "concat", "decoder": "slot", "k": 4, "r": 1, "a_a": 0.9, "a_d": 0.7},
    ]
    assert accuracy_rows(tmp_path / "nothing") == []


def test_records_survive_a_csv_file(tmp_path: Path) -> None:
    assert read_csv(write_csv(tmp_path / "records.csv", RECORDS)) == RECORDS
