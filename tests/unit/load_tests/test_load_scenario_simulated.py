"""A scenario in the simulator gives a run directory like a real run's, and can be held against one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from load_tests import agreement, run
from load_tests.experiment.rows import measure
from load_tests.experiment.runs import read_run, write_run
from parm_ray.config.scenario import load_scenario
from parm_ray.scenarios import row_of, simulate_cell

SCENARIO: dict[str, Any] = {
    "name": "brief",
    "m": 2,
    "loads": [0.4, 0.7],
    "queries": 600,
    "warm_up": 20,
    "repetitions": 2,
    "service": {"kind": "deterministic", "service_s": 0.05},
    "slowness": {"share": 0.02, "factor": 10},
    "path": {"overhead_ms": 7, "slot_ms": 3},
    "plans": [
        {"name": "equal_resources", "deployed": 3},
        {"name": "hedged", "deployed": 3, "plan": {"kind": "hedged"}},
        {"name": "coded", "deployed": 2, "parity": 1, "plan": {"kind": "coded", "hold_off_ms": 70}},
        {"name": "cut", "deployed": 2, "plan": {"kind": "none"}},
    ],
}


def simulate(tmp_path: Path, **changed: Any) -> Path:
    """Simulate, and return the run's directory; its scenario lies beside it."""
    file = tmp_path / "brief.yaml"
    file.write_text(yaml.safe_dump(SCENARIO | changed))
    assert run.main([str(file), "--on", "simulator", "--out", str(tmp_path / "run")]) == 0
    return tmp_path / "run"


@pytest.fixture
def simulated(tmp_path: Path) -> Path:
    return simulate(tmp_path)


def test_the_rows_are_those_of_parm_ray_simulate(tmp_path: Path) -> None:
    """Two ways to one row: over the records of a run directory, and straight from the simulation."""
    directory = simulate(tmp_path, deadline_ms=400)
    scenario = load_scenario(tmp_path / "brief.yaml")
    rows = {(one.variant.plan, one.rate): one.row for one in measure(read_run(directory))}
    assert len(rows) == 8
    for number, plan in enumerate(scenario.plans):
        for point, (rate, _) in enumerate(scenario.points()):
            cells = [simulate_cell(scenario, scenario.plans[number], point, r) for r in range(2)]
            straight = row_of(cells, scenario.warm_up)
            ours = rows[plan.name, rate]
            assert (ours["queries"], ours["errors"]) == (2 * 580, straight["errors"])
            assert ours["reconstructed"] == pytest.approx(straight["reconstructed"], abs=1e-4)
            assert ours["extra_work"] == pytest.approx(straight["extra_work"], abs=1e-3)
            for name in ("p50_ms", "p99_ms"):
                if straight["errors"] == 0:
                    assert ours[name] == pytest.approx(straight[name], abs=0.01), name
    # A call that takes 500 ms misses a deadline of 400.
    assert rows["cut", scenario.points()[0][0]]["errors"] > 0


def test_two_processes_write_what_one_does(simulated: Path, tmp_path: Path) -> None:
    file, out = str(tmp_path / "brief.yaml"), tmp_path / "two"
    options = ["--on", "simulator", "--processes", "2", "--plans", "coded", "--out", str(out)]
    assert run.main([file, *options]) == 0
    one, two = (
        [row.row for row in measure(read_run(path)) if row.variant.plan == "coded"]
        for path in (simulated, out)
    )
    assert [row["p99_ms"] for row in one] == [row["p99_ms"] for row in two]


def test_the_simulator_agrees_with_itself_and_finds_the_path_s_costs(
    simulated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that says it was real, by a machine that adds 7 ms to a query and holds a slot for 3 more."""
    found = read_run(simulated)
    write_run(simulated, found.run.model_copy(update={"executor": "serve"}))
    assert agreement.main([str(simulated), "--repetitions", "2"]) == 0
    assert "the same" in capsys.readouterr().out
    both = agreement.agreement(read_run(simulated), "equal_resources", 2)
    for one in both:
        assert one.off("p99_ms") == pytest.approx(0, abs=0.1), one


def test_what_shuffles_did_is_found_in_the_tail_of_one_plan_and_foretells_another(tmp_path: Path) -> None:
    """A run whose calls were delayed by 100 ms on average, one in ten of those on nodes that shuffle."""
    changed = {
        "slowness": {},
        "loads": [0.4],
        "queries": 12_000,
        "repetitions": 1,
        "path": {},
        "lab": {"model_nodes": 6, "link": {"rate_mbit": 100}},
        "shuffles": {"concurrent": 1, "size_mb": [10, 30]},
        "network": {"hit": 0.1, "delay_ms": 100},
    }
    directory = simulate(tmp_path, **changed)
    found = read_run(directory)
    settings = {**found.run.settings, "network": None}
    write_run(directory, found.run.model_copy(update={"executor": "netlab", "settings": settings}))
    both = agreement.agreement(read_run(directory), "equal_resources", 3)
    assert {one.plan for one in both} == {plan["name"] for plan in SCENARIO["plans"]}
    for one in both:
        assert one.off("p99_ms") == pytest.approx(0, abs=0.2), one


def test_what_disagrees_is_said(simulated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same run held against a scenario in which hedges come from a delay that helps nobody."""
    found = read_run(simulated)
    settings = json.loads(found.run.model_dump_json())["settings"]
    settings["plans"][1]["plan"]["hedge"] = {"rule": "fixed", "delay_ms": 3000}
    write_run(simulated, found.run.model_copy(update={"executor": "serve", "settings": settings}))
    assert agreement.main([str(simulated), "--repetitions", "2", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    hedged = [row for row in told["rows"] if row["plan"] == "hedged"]
    assert all(row["p99_off"] > 0.5 for row in hedged)


def test_a_simulated_run_is_no_measurement(simulated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert agreement.main([str(simulated)]) == 2
    assert "executor" in capsys.readouterr().err
    found = read_run(simulated)
    write_run(simulated, found.run.model_copy(update={"executor": "serve"}))
    assert agreement.main([str(simulated), "--calibrate", "coded_twice"]) == 2
    assert "coded_twice" in capsys.readouterr().err


def test_a_tail_among_the_failed_agrees_with_one_among_the_failed_alone() -> None:
    """Measured, it is infinite; in a simulated row, null."""

    def off(real: float, ours: float | None) -> float:
        return agreement.Both("a", 0.5, {"p99_ms": real}, {"p99_ms": ours}).off("p99_ms")

    assert off(np.inf, None) == 0
    assert np.isnan(off(100.0, None))
    assert np.isnan(off(np.inf, 100.0))
    assert off(100.0, 110.0) == pytest.approx(0.1)


def test_pairs_within_a_tie_are_in_no_order() -> None:
    def both(plan: str, real: float, ours: float) -> agreement.Both:
        return agreement.Both(plan, 0.5, {"p99_ms": real}, {"p99_ms": ours})

    assert agreement.out_of_order([both("a", 100, 103), both("b", 120, 100)]) == []
    assert agreement.out_of_order([both("a", 100, 120), both("b", 120, 100)]) == ["a and b at load 0.50"]
    assert agreement.out_of_order([both("a", np.inf, 120), both("b", 120, 100)]) == []
