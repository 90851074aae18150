"""Scenarios on a real cluster that runs already, and with faults; held against the simulator."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rich.console import Console

from load_tests import agreement, run
from load_tests.cluster import Cluster, cluster
from load_tests.experiment.columns import read_cell
from load_tests.experiment.rows import measure
from load_tests.experiment.runs import Run, read_run
from load_tests.progress import Reporter
from load_tests.scenario_places import OneCluster
from load_tests.scenario_run import Wanted, carry_out
from parm_ray.config.scenario import Scenario

ROOT = Path(__file__).parents[2]
SCENARIO: dict[str, Any] = {
    "name": "brief",
    "m": 2,
    "rates": [6],
    "queries": 120,
    "warm_up": 10,
    "service": {"kind": "deterministic", "service_s": 0.15},
    "slowness": {"share": 0.05, "factor": 10},
    "artifacts": "artifacts/digits",
    "plans": [
        {"name": "equal_resources", "deployed": 3},
        {"name": "coded", "deployed": 2, "parity": 1, "plan": {"kind": "coded", "hold_off_ms": 200}},
    ],
}


@pytest.fixture(scope="module")
def fresh() -> Iterator[Cluster]:
    """A cluster without applications."""
    with cluster(num_cpus=4, cwd=ROOT) as running:
        yield running


@pytest.fixture(scope="module")
def measured(fresh, artifacts, tmp_path_factory) -> Path:
    """The run directory of the scenario on the running cluster."""
    folder = tmp_path_factory.mktemp("scenario")
    (folder / "brief.yaml").write_text(yaml.safe_dump(SCENARIO))
    where = ["--on", "cluster", "--dashboard", fresh.dashboard_url, "--http", fresh.base_url]
    with pytest.MonkeyPatch.context() as patch:
        for key, value in fresh.env.items():
            patch.setenv(key, value)
        assert run.main([str(folder / "brief.yaml"), *where, "--out", str(folder / "run")]) == 0
    return folder / "run"


def test_a_running_cluster_carries_a_scenario_out(measured: Path) -> None:
    equal, coded = measure(read_run(measured))
    for one in (equal, coded):
        assert (one.row["queries"], one.row["errors"]) == (110, 0)
        assert one.row["accuracy"] > 0.9
        assert one.row["p50_ms"] > 150
    assert equal.row["p99_ms"] > 1500
    assert coded.row["reconstructed"] > 0
    assert coded.row["p99_ms"] < equal.row["p99_ms"]


def test_the_simulator_says_the_same_of_the_same_arrivals_and_slow_calls(measured: Path) -> None:
    """110 queries say little about a tail; shares and who wins they do say. Medians move with the machine."""
    equal, coded = agreement.agreement(read_run(measured), "equal_resources", 5)
    assert equal.off("p50_ms") == pytest.approx(0, abs=0.02)
    assert coded.off("p50_ms") == pytest.approx(0, abs=0.3)
    assert agreement.out_of_order([equal, coded]) == []
    share = coded.simulated["reconstructed"]
    assert coded.measured["reconstructed"] == pytest.approx(share, abs=3 * np.sqrt(share / 110) + 0.02)


def test_somebody_else_s_cluster_is_left_alone(server, tmp_path, capsys) -> None:
    (tmp_path / "brief.yaml").write_text(yaml.safe_dump(SCENARIO))
    where = ["--on", "cluster", "--dashboard", server.cluster.dashboard_url, "--http", server.url]
    assert run.main([str(tmp_path / "brief.yaml"), *where, "--out", str(tmp_path / "run")]) == 2
    told = capsys.readouterr().err
    assert "caller" in told
    assert "parm" in told


def test_a_stalled_replica_is_in_the_records_and_in_the_timeline(fresh, measured, tmp_path) -> None:
    """Every call that the only two replicas take is quick; one of them stops for 1.5 s."""
    stall = {"kind": "stall", "replica": "deployed/0", "at_s": 4.0, "for_s": 1.5}
    changed = {"plans": [{"name": "none", "deployed": 2}], "slowness": {}, "queries": 60}
    scenario = Scenario.model_validate(SCENARIO | changed | {"faults": [stall]})
    described = Run(scenario="brief", executor="serve", command="-", commit="-", date="2020-01-01")
    wanted = Wanted(scenario.plans, scenario.queries, 1)
    reporter = Reporter(Console(stderr=True))
    done = carry_out(scenario, wanted, OneCluster(fresh), tmp_path, ROOT, described, reporter)
    (cell,) = done.cells
    assert [(event.kind, event.what) for event in cell.timeline] == [
        ("stall", "deployed/0"),
        ("resume", "deployed/0"),
    ]
    columns = read_cell(read_run(tmp_path), cell.id, 0)
    worst = int(np.argmax(columns.latency))
    assert 700 < columns.latency[worst] < 2500
    assert 3.5 < columns.planned[worst] < 5.5


def test_a_study_spread_over_the_cluster_says_what_one_process_says(fresh, measured, tmp_path) -> None:
    file = tmp_path / "brief.yaml"
    file.write_text(yaml.safe_dump(SCENARIO))
    address = (fresh.temp_dir / "ray_current_cluster").read_text()

    def rows(*options: str) -> list[dict[str, Any]]:
        command = [sys.executable, "-m", "parm_ray.cli", "simulate", str(file), "--json", *options]
        env = fresh.env | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    assert rows("--ray", address) == rows()
