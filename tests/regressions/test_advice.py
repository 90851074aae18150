"""The adviser's faults that review found, each with the right value."""

from __future__ import annotations

import numpy as np
import pytest

from parm_ray.advisor import Candidate, Limits, Losers, Objective, Round, Workload, advise
from parm_ray.advisor.candidates import candidates
from parm_ray.advisor.measured import Measured
from parm_ray.advisor.oracle import Task, Trial, run
from parm_ray.advisor.race import Effort
from parm_ray.redundancy import RedundancyPlan
from parm_ray.stats.copies import SizeSlowdown, draw_copies
from parm_ray.stats.families import Bimodal, Empirical, Exponential, LogNormal
from parm_ray.stats.trust import require_quantile

BRIEF = Effort((Round(4, 1000),), (), 1000)
SIZES = SizeSlowdown(LogNormal(0.0, 1.0), Bimodal(1.0, 10.0, 0.05))


def test_a_percentile_that_is_made_nearer_is_one_that_the_sample_tells() -> None:
    """Rounding 1 - 10 / 900 up asked for 901 values of 900."""
    for n in (200, 300, 900, 999, 1001, 3333):
        near = Objective(0.999).coarse(n)
        assert near.quantile is not None
        require_quantile(range(n), near.quantile)


def test_few_pairs_that_contradict_give_a_nearer_percentile_and_no_refusal() -> None:
    sample = draw_copies(SIZES, np.random.default_rng(1), (5000,), 1)[:, 0]
    pairs = draw_copies(SIZES, np.random.default_rng(2), (300,), 2)
    workload = Workload(Empirical(sample), 0.5 * 4 / SIZES.mean, 4, Losers(0.0))
    advice = advise(workload, Objective(0.99), pairs=pairs, effort=BRIEF)
    assert str(advice.objective) == "p98.33"
    assert any("p99 cannot be told from so few pairs" in words for words in advice.warnings)


def test_too_few_pairs_are_said_to_be_too_few() -> None:
    x = Exponential(1.0)
    pairs = draw_copies(x, np.random.default_rng(2), (100,), 2)
    advice = advise(Workload(x, 1.0, 4, Losers(0.0)), Objective(None), pairs=pairs, effort=BRIEF)
    assert any("100 pairs are too few" in words for words in advice.warnings)
    assert any("taken to be independent" in words for words in advice.warnings)


def test_runs_of_different_length_are_compared_by_the_same_percentile() -> None:
    """7 slow calls in 1000, nothing of it the sample's doing: intervals were off by a factor of 7."""
    rng = np.random.default_rng(3)
    sizes = [900, 900, 1800, 1800, 2250, 2250, 2250, 2250]
    trials = [
        Trial(
            np.where(rng.random(n) < 0.007, 10.0, 1.0) * (1 + 0.1 * rng.random(n)), 0.5, 1.0, 0.0, seed // 2
        )
        for seed, n in enumerate(sizes)
    ]
    found = Measured(Candidate("x", RedundancyPlan(), 4), trials).interval(Objective(0.999))
    assert found is not None
    assert found.high / found.low < 3


def test_two_runs_give_no_interval() -> None:
    trial = Trial(np.ones(100), 0.5, 1.0, 0.0)
    two = Measured(Candidate("x", RedundancyPlan(), 4), [trial, trial])
    assert two.interval(Objective(0.9)) is None
    assert two.ratio(two, Objective(0.9)) is None


@pytest.mark.parametrize("discipline", ["single", "random"])
def test_a_query_takes_as_long_under_every_plan(discipline: str) -> None:
    """Calls were numbered as they started: one that was withdrawn before shifted all that came later."""
    seen: dict[str, list[float]] = {}
    workload = Workload(Exponential(1.0), 3.0, 4, discipline=discipline)  # type: ignore[arg-type]
    for plan in candidates(workload, Limits(), Objective(0.99)):
        if plan.name in ("none", "2 copies"):
            seen[plan.name] = sorted(run(Task(plan, workload, 0.001, 300, 5)).latency_s.tolist())
    # Nobody waits at this rate: with two copies each query takes the lesser of its own time and another.
    assert all(two <= one for one, two in zip(seen["none"], seen["2 copies"], strict=True))


def test_large_pools_get_the_queries_to_fill_them() -> None:
    workload = Workload(Exponential(1.0), 150.0, 200)
    (none,) = candidates(workload, Limits(kinds=frozenset({"none"})), Objective(None))
    assert len(run(Task(none, workload, workload.rate, 100, 0)).latency_s) == 0.9 * 20 * 200


def test_the_runner_up_and_other_loads_bear_the_headroom(monkeypatch: pytest.MonkeyPatch) -> None:
    def simulate(task: Task) -> Trial:
        found = run(task)
        grows = task.candidate.plan.kind != "none"
        return Trial(found.latency_s, 9 * found.load if grows else found.load, found.work_s, 0.0)

    monkeypatch.setattr("parm_ray.advisor.headroom.run", simulate)
    effort = Effort((Round(4, 1000),), (0.3,), 1000)
    advice = advise(Workload(Bimodal(1.0, 10.0, 0.05), 2.0, 8, Losers(0.0)), Objective(None), effort=effort)
    assert advice.best.plan.kind == "none"
    assert advice.runner_up is None or advice.runner_up.refused == ""
    assert [at.best for at in advice.by_load] == ["none"]
    refused = [one for one in advice.ranked if "times the rate" in one.refused]
    assert len(refused) >= 2
