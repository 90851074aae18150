from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from test_load_experiment_data import PLANS, make_run
from test_load_experiment_rows import exactly

from load_tests.experiment.cautions import cautions
from load_tests.experiment.findings import Findings, deepest, findings
from load_tests.experiment.rows import measure
from load_tests.experiment.runs import RunDirectory
from load_tests.experiment.titles import listed, titles
from load_tests.records import ClientRecord
from parm_ray.core import Outcome


def found_in(run: RunDirectory) -> Findings:
    measured = measure(run)
    return findings(measured, titles(measured))


def spread(level: float, slow: float = 0.0, n: int = 1000, seed: int = 0) -> list[float]:
    rng = np.random.default_rng([seed, round(level), round(slow * 1000)])
    return list(level + rng.exponential(1, n) + 100 * (rng.random(n) < slow))


def cell(plan: str, rate: float = 5.0) -> dict:
    return {"plan": plan, "title": plan.replace("_", " "), "rate": rate}


def test_the_headline_follows_the_rows(tmp_path: Path) -> None:
    quick, slow = spread(10), spread(10, 0.05)
    one = found_in(
        exactly(
            tmp_path / "1",
            {"a": (cell("equal_resources"), slow), "b": (cell("coded"), quick)},
        )
    )
    assert one.headline.startswith("coded has the lowest p99 at 5 queries/s: ")
    assert one.headline.endswith(" of equal resources")
    assert "Against equal resources, p99 of coded is lower at 5 queries/s (−" in one.points[0]
    other = found_in(
        exactly(
            tmp_path / "2",
            {"a": (cell("equal_resources"), quick), "b": (cell("coded"), slow)},
        )
    )
    assert other.headline.startswith("equal resources has the lowest p99 at 5 queries/s: ")
    assert other.headline.endswith(" of coded")
    assert any("Against coded, p99 of equal resources is lower" in point for point in other.points)


def test_equals_are_not_called_better(tmp_path: Path) -> None:
    found = found_in(
        exactly(tmp_path, {"a": (cell("none"), spread(10, seed=1)), "b": (cell("coded"), spread(10, seed=2))})
    )
    assert "is not shown to differ from" in found.headline
    assert "At most a quarter above the lowest p99, and not shown to differ from it: " in found.points[0]


def test_both_sides_of_a_crossing_are_told(tmp_path: Path) -> None:
    cells = {}
    for rate, ours, theirs in ((5, 10, 30), (6, 10, 30), (7, 30, 10)):
        cells[f"a{rate}"] = (cell("equal_resources", rate), spread(theirs))
        cells[f"b{rate}"] = (cell("coded", rate), spread(ours))
    found = found_in(exactly(tmp_path, cells))
    assert found.headline.startswith("coded has the lowest p99 at 2 of 3 rates, ")
    assert found.headline.endswith("% below equal resources")
    words = " ".join(found.points)
    assert "lower at 5 and 6 queries/s" in words
    assert "higher at 7 queries/s" in words
    assert "The lowest measured p99 is that of equal resources at 7 queries/s." in words


def test_one_plan_alone_is_said_to_be_alone(tmp_path: Path) -> None:
    found = found_in(exactly(tmp_path, {"a": (cell("none"), spread(10))}))
    assert found == Findings("none: nothing to compare it with", ())
    never = found_in(exactly(tmp_path / "n", {x: (cell(x), [math.inf] * 40) for x in ("a", "b")}))
    assert never.points == ()


def test_the_price_of_reconstructions_is_told(tmp_path: Path) -> None:
    found = found_in(make_run(tmp_path, plans=(PLANS[1], PLANS[3]), loads=(0.5,), queries=1500))
    price = found.points[-1]
    assert price.startswith("What Concatenation, slot decoder costs: ")
    assert "of its answers are reconstructions" in price
    assert "the extra work is 50 % of the original calls" in price


def test_the_tail_is_as_deep_as_the_queries_carry(tmp_path: Path) -> None:
    for n, name in ((40, "p50"), (150, "p90"), (1000, "p99"), (2000, "p99.5"), (10_000, "p99.9")):
        assert deepest(measure(exactly(tmp_path / name, {"a": ({}, [1.0] * n)}))) == name


def test_cautions_name_what_is_wrong_and_where(tmp_path: Path) -> None:
    made = exactly(
        tmp_path,
        {
            "calm": (cell("calm"), [10.0] * 400),
            "failing": (cell("failing"), [10.0] * 390 + [math.inf] * 10),
            "growing": (cell("growing"), [10.0 + i / 10 for i in range(400)]),
            "busy": ({**cell("busy", 6.0), "cpu_busy": 0.97}, [10.0] * 400),
        },
    )
    from load_tests.experiment.runs import read_run, write_cell

    late = [ClientRecord(i, i, i + 0.02, i + 0.03, 200, Outcome.ORIGINAL) for i in range(400)]
    write_cell(tmp_path, "busy", late)
    measured = measure(read_run(tmp_path))
    found = cautions(made.run, measured, titles(measured))
    generator, cores, failed, grows = found.warnings
    assert "fell behind its plan (99th percentile up to 20 ms, limit 5 ms)" in generator
    assert generator.endswith("busy (6 queries/s).")
    assert cores.endswith("wait for a CPU: busy (6 queries/s).")
    assert failed == "10 of 1,600 queries failed and count as never answered: failing (5 queries/s)."
    assert grows.endswith("growing (5 queries/s).")
    few, once, lacking = found.notes
    assert few.startswith("In 4 of 4 rows p99.9 rests on fewer than 10 queries")
    assert once.startswith("Every plan ran once")
    assert "calm (6 queries/s)" in lacking
    assert "busy (5 queries/s)" in lacking


def test_a_quiet_run_has_no_warnings(tmp_path: Path) -> None:
    cells = {f"a{i}": ({"repetition": i}, [10.0] * 10_000) for i in range(2)}
    run = exactly(tmp_path, cells)
    measured = measure(run)
    found = cautions(run.run, measured, titles(measured))
    assert (found.warnings, found.notes) == ((), ())


def test_lists_in_words() -> None:
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdef"), 4) == "a, b, c and 3 more"
