"""Healthy engines that were penalised, and slow ones that were not, and what is right of each."""

from __future__ import annotations

import numpy as np
import pytest

from parm_ray.routing.fleet import MM1, Demand, Engine, Fleet
from parm_ray.routing.planes import ControlPlane, ControlRule, PenaltyRule, Report, Seen
from tests.support.fleets import three_regions

RULE = ControlRule(smoothing_s=0.0)


@pytest.mark.parametrize("answers", [4, 20, 100, 200])
def test_one_call_that_hangs_among_good_answers_is_no_slow_engine(answers: int) -> None:
    control = ControlPlane(three_regions(), RULE)
    for n in range(40):
        good = Seen(answers, 0.02 * answers)
        seen = {"A": good, "B": good, "C": good + Seen(waiting=1, waited_s=1.0 + n)}
        control.inputs.report(Report("B", "0", 1.0, {"default": 48}, engines=seen), float(n))
        control.decide(float(n), 0.0)
        assert control.penalties.multipliers["C"] == 1


def test_an_engine_that_answers_nothing_any_more_is_slow() -> None:
    control = ControlPlane(three_regions(0.4), RULE)
    for n in range(6):
        good = Seen(30, 0.6)
        hangs = Seen(waiting=5 * n, waited_s=2.5 * n * n)
        seen = {"A": good, "B": good, "C": good if n < 2 else hangs}
        control.inputs.report(Report("B", "0", 1.0, {"default": 48}, engines=seen), float(n))
        control.decide(float(n), 0.0)
    assert control.penalties.multipliers["C"] < 1


def test_an_engine_whose_calls_all_lose_to_hedges_is_slow() -> None:
    control = ControlPlane(three_regions(0.4), RULE)
    for n in range(4):
        # The network takes 70 ms, the hedge comes after 115: more than that is not seen of any call.
        seen = {"A": Seen(30, 0.6), "B": Seen(30, 0.6), "C": Seen(given_up=15, given_up_s=15 * 0.115)}
        control.inputs.report(Report("B", "0", 1.0, {"default": 75}, engines=seen), float(n))
        control.decide(float(n), 0.0)
    assert control.penalties.multipliers["C"] <= 0.1


def test_a_few_hedges_make_no_slow_engine() -> None:
    control = ControlPlane(three_regions(0.4), RULE)
    for n in range(10):
        seen = {name: Seen(19, 0.38, given_up=1, given_up_s=0.045) for name in "ABC"}
        control.inputs.report(Report("B", "0", 1.0, {"default": 60}, engines=seen), float(n))
        control.decide(float(n), 0.0)
    assert set(control.penalties.multipliers.values()) == {1.0}


@pytest.mark.parametrize("calls", [2, 3, 4])
@pytest.mark.parametrize("engines", [2, 3])
def test_at_low_rates_an_engine_is_not_acquitted_for_want_of_comparison(calls: int, engines: int) -> None:
    names = "abc"[:engines]
    fleet = Fleet(
        (Demand("x", 3.0 * engines),), tuple(Engine(n, MM1(50.0)) for n in names), np.zeros((1, engines))
    )
    control = ControlPlane(fleet, RULE)
    free = 0
    for n in range(100):
        seen = {name: Seen(calls, 0.021 * calls * (10 if name == "a" else 1)) for name in names}
        control.inputs.report(Report("x", "0", 1.0, {"default": calls * engines}, engines=seen), float(n))
        control.decide(float(n), 0.0)
        free += n > 30 and control.penalties.multipliers["a"] == 1
    assert free == 0


def test_who_was_seen_under_the_last_plan_but_one_is_not_slow_by_the_new_one() -> None:
    engines = tuple(Engine(name, MM1(100.0)) for name in "abc")
    control = ControlPlane(Fleet((Demand("x", 185.0),), engines, np.zeros((1, 3))), RULE)
    for n in range(12):
        # Every other four intervals c is gone: a and b have 92.5 % of what they can do, else 61.7.
        there = n % 8 >= 4
        control.inputs.ready("c", float(there), float(n))
        # What is reported was seen under the plan before, all of whose reports came with that of the last.
        late = (n - 1) % 8 >= 4
        rate = 61.7 if late else 92.5
        seen = {name: Seen(60, 60 / (100 - rate)) for name in "ab"} | (
            {"c": Seen(60, 60 / 38.3)} if late else {}
        )
        control.inputs.report(Report("x", "0", 1.0, {"default": 185}, engines=seen), float(n))
        control.decide(float(n), 0.0)
        assert set(control.penalties.multipliers.values()) == {1.0}


def test_a_penalty_that_is_lifted_is_not_told_as_if_it_were_applied() -> None:
    fleet = Fleet((Demand("x", 150.0),), tuple(Engine(name, MM1(100.0)) for name in "ab"), np.zeros((1, 2)))
    control = ControlPlane(fleet, ControlRule(smoothing_s=0.0, penalty=PenaltyRule(max_share=1.0)))
    for n in range(5):
        seen = {"a": Seen(30, 30 * 2.0), "b": Seen(60, 60 * 0.04)}
        control.inputs.report(Report("x", "0", 1.0, {"default": 150}, engines=seen), float(n))
        snapshot = control.decide(float(n), 0.0)
    assert snapshot is not None
    assert control.penalties.multipliers["a"] < 0.1
    assert snapshot.weights[0, 0] == pytest.approx(0.5, abs=0.15)
    left, why = snapshot.penalties["a"]
    assert left == 1
    assert why.endswith("lifted, there is no room elsewhere")
