"""The adviser's choices, where it is known which is right."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest

from parm_ray.advisor import (
    Advice,
    Effort,
    Limits,
    Losers,
    Objective,
    ParityOffer,
    Round,
    Workload,
    advise,
    report,
)
from parm_ray.advisor.oracle import Task, Trial, run
from parm_ray.advisor.page import render
from parm_ray.redundancy import RedundancyPlan
from parm_ray.stats.copies import SizeSlowdown, draw_copies
from parm_ray.stats.families import (
    Bimodal,
    Empirical,
    Exponential,
    Family,
    Hyperexponential,
    LogNormal,
    ShiftedExponential,
)

BRIEF = Effort((Round(2, 700), Round(2, 1500, 6), Round(4, 2500, 3)), (), 1000)
FREE, NEVER = Losers(0.0), Losers(None)
MEAN = Objective(None)


def ask(
    x: Family | SizeSlowdown,
    load: float,
    losers: Losers = FREE,
    objective: Objective = MEAN,
    limits: Limits | None = None,
    *,
    n: int = 8,
    parities: tuple[ParityOffer, ...] = (),
    effort: Effort = BRIEF,
    pairs: np.ndarray | None = None,
) -> Advice:
    workload = Workload(x, load * n / x.mean, n, losers, parities)
    return advise(workload, objective, limits, pairs=pairs, effort=effort)


def test_log_convex_times_with_free_cancelling_want_copies_at_any_load() -> None:
    x = Hyperexponential(0.9, (1.0, 0.1))
    for load in (0.2, 0.8):
        advice = ask(x, load)
        assert advice.best.plan.copies == 3, advice.best.reason
        # Three copies take 2.29 s of servers in place of 5.7: (3 E[least of 3]) / E[X] - 1.
        assert advice.best.extra_work == pytest.approx(3 * x.min_mean(3) / x.mean - 1, abs=0.05)


def test_log_concave_times_want_no_copies_where_there_is_load() -> None:
    assert ask(ShiftedExponential(0.5, 2.0), 0.85).best.plan.kind == "none"
    # Nobody else needs the servers: then copies cost nothing that counts.
    assert ask(ShiftedExponential(0.5, 2.0), 0.05).best.plan.copies > 1


def test_calls_that_cannot_be_stopped_turn_copies_into_load() -> None:
    x = Hyperexponential(0.9, (1.0, 0.1))
    assert ask(x, 0.6, NEVER).best.plan.copies == 1
    refused = {one.candidate.name: one.refused for one in ask(x, 0.6, NEVER).unsimulated}
    assert refused["3 copies"] == "takes 200% more work, the limit is 100%"


def test_a_few_slow_calls_want_a_hedge_after_the_fast_mode() -> None:
    """1 (95 %) / 10 (5 %), free cancelling: a hedge at the end of the fast mode takes 1.07, costs 1.14."""
    advice = ask(Bimodal(1.0, 10.0, 0.05), 0.6)
    hedge = advice.best.plan.hedge
    assert hedge is not None
    assert hedge.delay_s == pytest.approx(1.0, rel=0.01)
    assert advice.best.extra_work == pytest.approx(1.14 / 1.45 - 1, abs=0.04)
    assert advice.best.over_none.high < 1


def test_one_replica_has_nobody_to_ask() -> None:
    advice = ask(Exponential(1.0), 0.5, n=1, parities=(ParityOffer(2),))
    assert [one.name for one in advice.ranked] == ["none"]
    assert advice.runner_up is None


class TestLimits:
    X = Bimodal(0.05, 0.5, 0.02)

    def test_extra_work(self) -> None:
        limits = Limits(extra_work=0.05)
        advice = ask(self.X, 0.5, NEVER, Objective(0.99), limits, parities=(ParityOffer(2),))
        assert advice.best.extra_work <= 0.07
        assert advice.best.plan.kind == "hedged"
        assert any("the limit is 5%" in one.refused for one in advice.ranked if one.refused)

    def test_accuracy(self) -> None:
        """A fifth of the reconstructions is wrong: only plans that decode seldom are left."""
        offer = (ParityOffer(2, accuracy_loss=0.2),)
        kinds = frozenset({"none", "coded"})
        strict = ask(
            self.X, 0.3, NEVER, Objective(0.99), Limits(accuracy_loss=0.004, kinds=kinds), parities=offer
        )
        free = ask(self.X, 0.3, NEVER, Objective(0.99), Limits(kinds=kinds), parities=offer)
        assert strict.best.plan.coded
        assert strict.best.accuracy_loss is not None
        assert free.best.accuracy_loss is not None
        assert strict.best.accuracy_loss <= 0.004 < free.best.accuracy_loss
        assert any("of the right answers, the limit is 0.40%" in one.refused for one in strict.ranked)
        limits = Limits(accuracy_loss=0.004, kinds=kinds)
        blind = ask(self.X, 0.3, NEVER, Objective(0.99), limits, parities=(ParityOffer(2),))
        assert blind.best.plan.kind == "none"
        assert any("not known" in one.refused for one in blind.ranked)

    def test_kinds(self) -> None:
        advice = ask(self.X, 0.3, FREE, limits=Limits(kinds=frozenset({"none"})))
        assert [one.name for one in advice.ranked] == ["none"]

    def test_headroom(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The server's own plans limit themselves (budgets, copies withdrawn while they wait): one that does
        not is made up here.
        """
        x, kinds = Hyperexponential(0.9, (1.0, 0.1)), frozenset({"none", "replicated"})
        assert ask(x, 0.4, NEVER, limits=Limits(kinds=kinds)).best.name == "2 copies"
        rate = 0.4 * 8 / x.mean
        asked: list[float] = []

        def simulate(task: Task) -> Trial:
            asked.append(task.rate)
            found = run(task)
            return replace(found, load=found.load * task.candidate.plan.copies)

        monkeypatch.setattr("parm_ray.advisor.headroom.run", simulate)
        wary = ask(x, 0.4, NEVER, limits=Limits(kinds=kinds))
        assert asked
        assert asked == pytest.approx([1.3 * rate] * len(asked))
        assert wary.best.name == "none"
        two = next(one for one in wary.ranked if one.name == "2 copies")
        assert two.refused == "its queues grow without bound at 1.3 times the rate"
        asked.clear()
        bold = ask(x, 0.4, NEVER, limits=Limits(kinds=kinds, headroom=1.0))
        assert bold.best.name == "2 copies"
        assert not asked


class TestSizes:
    """S&X: log-normal sizes, servers ten times slower for 5 % of the calls. Two copies cost 41 % more than
    one call; single times promise that they cost 27 % less.
    """

    X = SizeSlowdown(LogNormal(0.0, 1.0), Bimodal(1.0, 10.0, 0.05))

    SAMPLE = draw_copies(X, np.random.default_rng(3), (10_000,), 1)[:, 0]
    PAIRS = draw_copies(X, np.random.default_rng(4), (4000,), 2)

    def test_single_times_advise_copies(self) -> None:
        advice = ask(Empirical(self.SAMPLE), 0.7)
        assert advice.best.plan.copies > 1
        assert advice.best.extra_work == pytest.approx(-0.27, abs=0.06)
        assert any("independent" in words for words in advice.warnings)

    def test_pairs_refuse_them(self) -> None:
        advice = ask(Empirical(self.SAMPLE), 0.7, pairs=self.PAIRS)
        assert advice.best.plan.copies == 1
        found = advice.evidence.pairs
        assert found is not None
        assert found.cost_ratio == pytest.approx(1.41, abs=0.07)
        assert found.independent_ratio == pytest.approx(0.73, abs=0.05)
        two = next(one for one in advice.ranked if one.name == "2 copies")
        assert two.objective_s > advice.none.objective_s
        assert "not the 0.7" in two.reason
        assert any("pairs were used" in words for words in advice.warnings)

    def test_the_law_itself_says_the_same(self) -> None:
        assert ask(self.X, 0.7).best.plan.copies == 1

    def test_pairs_that_agree_change_nothing(self) -> None:
        x = Hyperexponential(0.9, (1.0, 0.1))
        pairs = draw_copies(x, np.random.default_rng(5), (2000,), 2)
        advice = ask(x, 0.6, pairs=pairs)
        assert advice.best.plan.copies == 3
        assert not any("pairs" in words for words in advice.warnings)


class TestSamples:
    RNG = np.random.default_rng(6)

    def test_too_small(self) -> None:
        with pytest.raises(ValueError, match="at least 200 service times, got 150: measure 50 more"):
            ask(Empirical(self.RNG.exponential(1.0, 150)), 0.5)

    def test_a_percentile_beyond_the_sample(self) -> None:
        x = Empirical(self.RNG.exponential(1.0, 2000))
        with pytest.raises(ValueError, match=r"quantile of 0\.999 needs 10000 service times, got 2000"):
            ask(x, 0.5, objective=Objective(0.999))
        advice = ask(x, 0.5, objective=Objective(0.99))
        assert all(one.p999_s is None for one in advice.ranked)
        assert all(one.p99_s is not None for one in advice.ranked[:2])

    def test_a_heavy_tail_is_said(self) -> None:
        x = Empirical(1 + self.RNG.pareto(1.3, 5000))
        assert any("not to be trusted" in words for words in ask(x, 0.3).warnings)

    def test_intervals_hold_the_truth(self) -> None:
        """M/M/2 at load 0.5: E[T] = 4/3."""
        x = Empirical(np.random.default_rng(8).exponential(1.0, 5000))
        effort = Effort((Round(12, 4000),), (), 1000)
        none = ask(x, 0.5, n=2, effort=effort, limits=Limits(kinds=frozenset({"none"}))).none
        assert none.interval.low < 4 / 3 < none.interval.high
        assert none.interval.high - none.interval.low < 0.35


def test_loads_and_what_changes_there() -> None:
    effort = replace(BRIEF, loads=(0.05, 0.9))
    advice = ask(ShiftedExponential(0.5, 2.0), 0.3, effort=effort)
    assert [at.load for at in advice.by_load] == [0.05, 0.9]
    assert advice.by_load[0].best != "none"
    assert advice.changes_at == ((0.9, "none"),)
    assert advice.by_load[1].rate == pytest.approx(0.9 * 8 / 1.0)


def test_the_same_seed_gives_the_same_advice() -> None:
    one, other = (report(ask(Bimodal(1.0, 10.0, 0.05), 0.5)) for _ in range(2))
    assert one == other


def test_the_page_is_whole_and_asks_nobody() -> None:
    effort = replace(BRIEF, loads=(0.3, 0.7))
    page = render(ask(Bimodal(0.05, 0.5, 0.03), 0.4, NEVER, Objective(0.99), effort=effort))
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert "$" not in page.split("<body>")[1]
    for drawing in page.split("<svg")[1:]:
        ElementTree.fromstring("<svg" + drawing.split("</svg>")[0] + "</svg>")
    assert page.count("<svg") == 3


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rate": 0.0}, "rate: expected queries per second > 0"),
        ({"replicas": 0}, "replicas: expected >= 1"),
        ({"parities": (ParityOffer(2), ParityOffer(2, 2.0))}, "parities: expected each k once"),
    ],
)
def test_workloads_out_of_range(changed: dict[str, object], words: str) -> None:
    given = {"service": Exponential(1.0), "rate": 1.0, "replicas": 2} | changed
    with pytest.raises(ValueError, match=words):
        Workload(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("words", ["", "p0", "p100", "median", "p99.9x", "99"])
def test_objectives_out_of_range(words: str) -> None:
    with pytest.raises(ValueError, match="objective: expected"):
        Objective.parse(words)


def test_objectives_by_name() -> None:
    assert Objective.parse("p99.9") == Objective(0.999)
    assert str(Objective(0.999)) == "p99.9"
    assert str(Objective.parse("mean")) == "mean"
    assert isinstance(ask(Exponential(1.0), 0.3).best.plan, RedundancyPlan)
