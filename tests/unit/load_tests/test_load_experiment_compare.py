from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from test_load_experiment_data import PLANS, make_run
from test_load_experiment_rows import exactly

from load_tests import compare as command
from load_tests.experiment.compare import (
    STATISTICS,
    Comparison,
    Difference,
    compare_plans,
    compare_runs,
    default_baseline,
    difference,
    level,
)
from load_tests.experiment.resample import FIGURES, draws, figures
from load_tests.experiment.rows import measure


def measured(rng: np.random.Generator, levels: list[float], n: int = 1500) -> SimpleNamespace:
    """What `difference` reads of a measurement: queries that depend on each other, a level per repetition."""
    samples = []
    for factor in levels:
        slow = np.convolve(rng.random(n) < 0.003, np.ones(8))[:n] > 0
        busy = np.convolve(rng.normal(size=n + 19), np.ones(20), mode="valid")
        samples.append(factor * (20 + np.exp(busy / 4) + slow * 100))
    table = np.array([figures(sample) for sample in samples])
    drawn = np.median([draws(sample, rng, resamples=200) for sample in samples], axis=0)
    row = dict(zip(FIGURES, np.median(table, axis=0), strict=True))
    return SimpleNamespace(by_repetition=table, draws=drawn, row=row)


@pytest.mark.parametrize("statistic", ["p50", "mean", "p90"])
def test_a_large_difference_is_real_and_its_interval_holds_it(statistic: str) -> None:
    rng = np.random.default_rng(0)
    found = difference(measured(rng, [1.0]), measured(rng, [1.5]), statistic)
    assert found.real
    assert found.word == "real"
    assert found.value < 0
    assert found.low <= found.value <= found.high < 0
    assert found.p < 0.05
    assert found.ratio == pytest.approx(1 / 1.5, rel=0.1)
    other = difference(measured(rng, [1.5]), measured(rng, [1.0]), statistic)
    assert other.real
    assert other.value > 0


@pytest.mark.parametrize(("repetitions", "spread"), [(1, 0.0), (3, 0.0), (2, 0.05), (3, 0.05)])
def test_no_difference_is_seldom_called_real(repetitions: int, spread: float) -> None:
    rng = np.random.default_rng(repetitions)
    wrong = dict.fromkeys(("p50", "p99"), 0)
    pairs = 40
    for _ in range(pairs):
        a, b = (measured(rng, list(np.exp(spread * rng.normal(size=repetitions))), 600) for _ in range(2))
        for statistic in wrong:
            wrong[statistic] += difference(a, b, statistic).real
    # Of 40 at 5 %, more than 6 would happen once in a hundred times; blocks are not perfect.
    assert max(wrong.values()) <= 7, wrong


def test_what_differs_from_run_to_run_is_not_taken_for_the_plan() -> None:
    rng = np.random.default_rng(7)
    steady, moved = measured(rng, [1.0, 1.0, 1.0]), measured(rng, [0.8, 1.3, 1.1])
    assert difference(measured(rng, [1.0]), measured(rng, [1.1]), "p50").real
    assert not difference(steady, moved, "p50").real
    assert difference(steady, measured(rng, [1.1, 1.1, 1.1]), "p50").real
    # One repetition against several: it is taken to scatter like them.
    assert not difference(measured(rng, [1.0]), moved, "p50").real


def test_who_scatters_too_much_does_not_stand_beside_the_best() -> None:
    rng = np.random.default_rng(3)
    best, near, wild = measured(rng, [1.0, 1.0]), measured(rng, [1.0, 1.01]), measured(rng, [1.2, 2.9])
    assert not difference(wild, best, "p50").real
    assert not level(wild, best, "p50")
    assert level(near, best, "p50") or level(best, near, "p50")
    assert level(best, best, "p50")


def test_never_is_worse_than_any_time(tmp_path: Path) -> None:
    fine, never = [10.0] * 200, [10.0, 10.0, 10.0, math.inf] * 50
    run = exactly(
        tmp_path,
        {
            "a": ({"plan": "a"}, fine),
            "b": ({"plan": "b"}, never),
            "c0": ({"plan": "c"}, fine),
            "c1": ({"plan": "c", "repetition": 1}, [10.0] * 100 + [math.inf] * 100),
        },
    )
    a, b, c = measure(run)
    found = difference(b, a, "p99")
    assert (found.value, found.word, found.ratio) == (math.inf, "real", None)
    assert difference(a, b, "p99").value == -math.inf
    assert (difference(b, b, "p99").value, difference(b, b, "p99").real) == (0, False)
    # Failing in one repetition of two says little.
    assert not difference(c, a, "p99").real
    assert difference(b, a, "p50").word == "not shown"


def test_plans_are_compared_with_the_baseline_at_each_rate(tmp_path: Path) -> None:
    found = measure(make_run(tmp_path, plans=PLANS[:4], loads=(0.4, 0.6), queries=1500))
    lines = compare_plans("run", found, "p99")
    assert [(c.a.variant.plan, c.b.variant.plan) for c in lines] == [
        (plan, "equal_resources") for plan in ("none", "sum_subtract", "concat_slot") for _ in range(2)
    ]
    assert all(c.a.rate == c.b.rate for c in lines)
    words = {(c.a.variant.plan, round(c.a.load or 0, 1)): c.difference for c in lines}
    assert words["concat_slot", 0.4].real
    assert words["concat_slot", 0.4].value < -150
    assert {c.b.variant.plan for c in compare_plans("run", found, "p50", "none")} == {"none"}
    assert default_baseline([one.variant for one in found if one.variant.plan != "equal_resources"]) == "none"
    with pytest.raises(ValueError, match="baseline: expected a plan of run, one of none, equal_resources"):
        compare_plans("run", found, "p50", "other")
    with pytest.raises(ValueError, match="statistic: expected one of p50, mean"):
        difference(found[0], found[1], "p42")


def test_runs_are_compared_plan_by_plan_at_the_same_rate_or_else_load(tmp_path: Path) -> None:
    plain = {"a": ({"plan": "a", "load": 0.5}, [10.0] * 50), "b": ({"plan": "b", "load": 0.5}, [20.0] * 50)}
    slower = {"a": ({"plan": "a", "load": 0.5}, [12.0] * 50)}
    faster_machine = {"a": ({"plan": "a", "load": 0.5, "rate": 9.0}, [9.0] * 50)}
    before, after, other = (
        measure(exactly(tmp_path / str(i), cells)) for i, cells in enumerate((plain, slower, faster_machine))
    )
    (line,) = compare_runs("after", after, "before", before, "p50")
    assert (line.run_a, line.run_b, line.difference.value, line.difference.word) == (
        "after",
        "before",
        2,
        "real",
    )
    (line,) = compare_runs("other", other, "before", before, "p50")
    assert line.difference.value == -1
    assert compare_runs("b", [before[1]], "a", after, "p50") == []


def test_json_has_no_infinities() -> None:
    side = SimpleNamespace(
        variant=SimpleNamespace(_asdict=lambda: {"plan": "a"}), rate=1.0, row={"repetitions": 1}
    )
    line = Comparison("x", "x", side, side, "p99", Difference(math.inf, 10.0, 3.0, math.inf, 0.004))
    found = line.as_json()
    assert (found["a"]["value_ms"], found["b"]["value_ms"]) == (None, 10.0)
    assert (found["difference_ms"], found["interval_ms"], found["verdict"]) == (None, [3.0, None], "real")


def test_the_command_prints_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = tmp_path / "one" / "run", tmp_path / "two" / "run"
    make_run(one, plans=PLANS[:3], loads=(0.4,), queries=400)
    make_run(two, plans=PLANS[:3], loads=(0.4,), queries=400, seed=9)
    assert command.main([str(one)]) == 0
    printed = capsys.readouterr().out
    assert "against Equal-Resources" in printed
    assert "With one repetition" in printed
    assert command.main([str(one), str(two), "--statistic", "p99.9", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert [(line["a"]["plan"], line["b"]["plan"]) for line in lines] == [
        (p, p) for p in ("none", "equal_resources", "sum_subtract")
    ]
    assert lines[0]["a"]["run"] != lines[0]["b"]["run"]
    assert {line["verdict"] for line in lines} <= {"real", "not shown"}
    assert command.main([str(one), str(two), "--baseline", "none", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 4
    assert command.main([str(one), "--baseline", "other"]) == 2
    assert "expected a plan of run" in capsys.readouterr().err
    assert command.main([str(one), str(one)]) == 2
    assert "given twice" in capsys.readouterr().err
    assert command.main([str(tmp_path)]) == 2
    assert "run.json" in capsys.readouterr().err


def test_every_statistic_is_a_figure() -> None:
    assert set(STATISTICS.values()) == set(FIGURES)
