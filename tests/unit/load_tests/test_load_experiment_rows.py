from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from test_load_experiment_data import PLANS, make_run

from load_tests.experiment.resample import FIGURES, block_length, draws, figures, interval
from load_tests.experiment.rows import at_rate, json_rows, measure, partner, rates
from load_tests.experiment.runs import Cell, Run, RunDirectory, read_run, write_cell, write_run
from load_tests.experiment.titles import rate_title, titles
from load_tests.records import ClientRecord
from parm_ray.core import Outcome
from parm_ray.stats import bootstrap_interval, percentile

LATENCIES = ["p50_ms", "mean_ms", "p90_ms", "p99_ms", "p995_ms", "p999_ms"]


def exactly(directory: Path, cells: dict[str, tuple[dict, list[float]]]) -> RunDirectory:
    """A run of cells whose latencies (ms; inf: failed) are given."""
    made = []
    for cell_id, (fields, latencies) in cells.items():
        records = [
            ClientRecord(
                i,
                float(i),
                float(i),
                i + (1.0 if math.isinf(ms) else ms / 1e3),
                200,
                Outcome.FAILED if math.isinf(ms) else Outcome.ORIGINAL,
            )
            for i, ms in enumerate(latencies)
        ]
        write_cell(directory, cell_id, records)
        plan = fields.get("plan", "a")
        made.append(
            Cell(**{"id": cell_id, "plan": plan, "title": plan, "rate": 5.0, "m": 1, "n": 2, **fields})
        )
    write_run(
        directory,
        Run(scenario="s", executor="serve", command="c", commit="0", date="d", cells=tuple(made)),
    )
    return read_run(directory)


def test_a_row_has_exactly_its_keys(tmp_path: Path) -> None:
    run = make_run(tmp_path, plans=PLANS[:4], loads=(0.5,), queries=300)
    row = next(one.row for one in measure(run) if one.variant.plan == "concat_slot")
    ends = [f"{name}_{end}" for name in LATENCIES for end in ("min", "max", "interval")]
    assert set(row) == {
        *("plan", "pool", "k", "rate", "utilization", "queries", *LATENCIES, *ends),
        *("gap_ms", "gap_ratio", "reconstructed", "original", "accuracy", "accuracy_reconstructed"),
        *("extra_work", "network_bytes", "utilization_all", "errors", "repetitions"),
    }
    assert (row["plan"], row["pool"], row["k"], row["repetitions"]) == ("concat_slot", "dedicated", 2, 1)
    assert row["queries"] == 300 - 300 // 50
    assert row["reconstructed"] + row["original"] == pytest.approx(1)
    assert 0.5 < row["accuracy_reconstructed"] < row["accuracy"] < 1
    assert (row["extra_work"], row["network_bytes"]) == (0.5, 900_000)
    assert json.loads(json.dumps(json_rows([row])))[0]["p99_ms"] == row["p99_ms"]


def test_latencies_are_medians_over_repetitions_by_nearest_rank(tmp_path: Path) -> None:
    run = exactly(
        tmp_path,
        {
            "c": ({"repetition": 2, "utilization": 0.5}, [float(v) for v in range(3, 103)]),
            "a": ({"repetition": 0, "utilization": 0.2, "warm_up": 2}, [900, 901, *range(1, 101)]),
            "b": ({"repetition": 1}, [float(v) for v in range(21, 121)]),
        },
    )
    (one,) = measure(run)
    row = one.row
    assert [cell.id for cell in one.cells] == ["a", "b", "c"]
    assert (row["p50_ms"], row["p50_ms_min"], row["p50_ms_max"]) == (52, 50, 70)
    assert (row["p99_ms"], row["p995_ms"], row["mean_ms"]) == (101, 102, 52.5)
    assert row["gap_ms"] == 50
    assert row["utilization"] == 0.35
    assert (row["queries"], row["repetitions"], row["errors"]) == (300, 3, 0)
    low, high = row["p50_ms_interval"]
    assert low <= 52 <= high


def test_failed_queries_are_infinitely_late_and_null_in_json(tmp_path: Path) -> None:
    run = exactly(tmp_path, {"a": ({}, [10.0] * 98 + [math.inf] * 2), "b": ({"plan": "b"}, [math.inf] * 30)})
    some, none = (one.row for one in measure(run))
    assert (some["p50_ms"], some["mean_ms"], some["p99_ms"], some["gap_ms"]) == (10, 10, math.inf, math.inf)
    assert (some["errors"], some["original"]) == (2, 1.0)
    assert (none["p50_ms"], none["mean_ms"], none["reconstructed"]) == (math.inf, math.inf, None)
    plain = json_rows([some, none])
    assert (plain[0]["p99_ms"], plain[0]["p99_ms_interval"][1], plain[1]["mean_ms"]) == (None, None, None)
    assert "Infinity" not in json.dumps(plain)


def test_the_gap_is_compared_with_the_equal_resources_that_match(tmp_path: Path) -> None:
    def tail(gap: float) -> list[float]:
        return [10.0] * 90 + [10.0 + gap] * 10

    run = exactly(
        tmp_path,
        {
            "er-k2": ({"plan": "equal_resources", "k": 2, "n": 18}, tail(100)),
            "er-k3": ({"plan": "equal_resources", "k": 3, "n": 16}, tail(50)),
            "k2": ({"plan": "coded", "k": 2, "n": 18}, tail(20)),
            "k3": ({"plan": "coded", "k": 3, "n": 16}, tail(20)),
            "same-n": ({"plan": "hedged", "n": 16}, tail(20)),
            "other-rate": ({"plan": "coded", "k": 2, "rate": 9.0}, tail(20)),
        },
    )
    measured = measure(run)
    found = {(one.variant.plan, one.variant.k, one.rate): one.row["gap_ratio"] for one in measured}
    assert found == {
        ("equal_resources", 2, 5): 1.0,
        ("equal_resources", 3, 5): 1.0,
        ("coded", 2, 5): 0.2,
        ("coded", 3, 5): 0.4,
        ("hedged", None, 5): 0.4,
        ("coded", 2, 9): None,
    }
    assert rates(measured) == [5, 9]
    assert len(at_rate(measured, 5.0000001)) == 5
    assert partner(measured[0], measured, "nobody") is None


def test_variants_of_one_title_are_told_apart(tmp_path: Path) -> None:
    run = make_run(tmp_path, plans=PLANS[2:6], loads=(0.5, 0.6), queries=40)
    measured = measure(run)
    assert list(titles(measured).values()) == [
        "Sum, subtraction decoder",
        *(f"Concatenation, slot decoder, k = {k}" for k in (2, 3, 4)),
    ]
    assert rate_title(at_rate(measured, rates(measured)[0])) == "203 queries/s, 50 % load"


def test_adding_a_plan_changes_no_interval(tmp_path: Path) -> None:
    few = measure(make_run(tmp_path / "a", plans=PLANS[1:2], loads=(0.5,), queries=200))
    many = measure(make_run(tmp_path / "b", plans=PLANS[:3], loads=(0.5,), queries=200))
    assert few[0].row["p99_ms_interval"] == many[1].row["p99_ms_interval"]


def test_draws_scatter_as_those_of_the_statistics_package() -> None:
    rng = np.random.default_rng(1)
    latency = 20 + rng.exponential(5, 2000) + 200 * (rng.random(2000) < 0.02)
    ours = draws(latency, np.random.default_rng(2), resamples=2000, block=25)
    for name, q in (("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99)):
        theirs = bootstrap_interval(
            latency, lambda v, q=q: percentile(v, q), np.random.default_rng(3), resamples=2000, block=25
        )
        assert interval(ours[:, FIGURES.index(name)]) == pytest.approx(theirs, rel=0.01)
    mean = bootstrap_interval(latency, np.mean, np.random.default_rng(3), resamples=2000, block=25)
    assert interval(ours[:, FIGURES.index("mean_ms")]) == pytest.approx(mean, rel=0.01)


def test_draws_of_the_failed_are_infinite() -> None:
    latency = np.array([10.0] * 50 + [np.inf] * 50)
    drawn = draws(latency, np.random.default_rng(0), resamples=50, block=1)
    assert np.isinf(drawn[:, FIGURES.index("p99_ms")]).all()
    assert (drawn[:, FIGURES.index("mean_ms")] == 10).all()
    assert figures(latency)[FIGURES.index("p50_ms")] == 10
    with pytest.raises(ValueError, match="at least one"):
        draws(np.empty(0), np.random.default_rng(0))


def test_blocks_are_longer_the_longer_queries_depend_on_each_other() -> None:
    rng = np.random.default_rng(4)

    def dependent(phi: float) -> np.ndarray:
        value, values = 0.0, []
        for shock in rng.normal(size=20_000):
            value = phi * value + shock
            values.append(value)
        return np.exp(np.array(values) / 5)

    lengths = [block_length(dependent(phi)) for phi in (0.0, 0.95, 0.995)]
    assert lengths[0] == 25
    assert lengths[0] < lengths[1] < lengths[2] <= 2000
    assert block_length(np.full(5000, 10.0)) == 25
    assert block_length(np.arange(30.0)) == 3
