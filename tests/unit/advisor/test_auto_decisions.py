"""When a server changes its plan: sure of it, not for a little, and never to and fro."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parm_ray.advisor.auto import Comparison, Rival, Rules, State, decide
from parm_ray.redundancy import Hedge, RedundancyPlan
from parm_ray.stats import Interval

NONE, COPIES = RedundancyPlan(), RedundancyPlan("replicated", copies=2)
CODED = RedundancyPlan("coded", k=2, r=1)


def hedged(delay_s: float = 0.05) -> RedundancyPlan:
    return RedundancyPlan("hedged", hedge=Hedge("fixed", delay_s))


def rival(plan: RedundancyPlan, share: float, spread: float = 0.05) -> Rival:
    return Rival(plan, share, Interval(share - spread, share + spread))


def run(*found: Comparison, rules: Rules, state: State | None = None, every: float = 30.0):
    """The state and the decisions after comparisons every so many seconds, the first at `every`."""
    state, decisions = state or State(NONE, 0.0), []
    for number, each in enumerate(found, 1):
        state, decision = decide(state, each, rules, number * every)
        decisions.append(decision)
    return state, decisions


AT_ONCE = Rules(dwell_s=0.0)
BETTER = Comparison((rival(hedged(), 0.5),))


def test_a_plan_that_is_better_twice_in_a_row_is_changed_to() -> None:
    state, decisions = run(BETTER, BETTER, rules=AT_ONCE)
    assert [d.verdict for d in decisions] == ["not_yet", "change"]
    assert (decisions[1].plan, decisions[1].reason) == (hedged(), "better")
    assert state == State(hedged(), since=60.0), "what was counted is used up"


def test_one_advice_between_two_begins_the_count_anew() -> None:
    for other in (
        Comparison(),
        Comparison((rival(hedged(), 0.95, 0.01),)),
        Comparison((rival(COPIES, 0.5),)),
    ):
        _, decisions = run(BETTER, other, BETTER, rules=AT_ONCE)
        assert "change" not in [d.verdict for d in decisions]


def test_the_latest_delay_counts_and_delays_that_differ_are_one_plan() -> None:
    _, decisions = run(BETTER, Comparison((rival(hedged(0.06), 0.5),)), rules=AT_ONCE)
    assert decisions[1].plan == hedged(0.06)


@pytest.mark.parametrize(
    ("share", "spread", "verdict"),
    [
        (0.90, 0.05, "not_yet"),
        (0.91, 0.01, "too_little"),
        (0.85, 0.16, "uncertain"),
        (1.4, 0.1, "too_little"),
    ],
)
def test_it_has_to_be_better_by_the_gain_and_by_more_than_chance(share, spread, verdict) -> None:
    _, (decision,) = run(Comparison((rival(hedged(), share, spread),)), rules=AT_ONCE)
    assert (decision.verdict, decision.plan) == (verdict, None)


def test_a_second_change_waits_for_the_dwell_time_and_comes_as_soon_as_it_has_passed() -> None:
    rules = Rules(dwell_s=100.0)
    state, decisions = run(BETTER, BETTER, BETTER, BETTER, rules=rules)
    assert [d.verdict for d in decisions] == ["not_yet", "dwelling", "dwelling", "change"]
    assert state.since == 120.0


def test_two_plans_that_are_as_good_do_not_keep_each_other_out() -> None:
    """They take turns at the top; the one that won before is still far better than what is in force."""
    first = Comparison((rival(hedged(), 0.50), rival(COPIES, 0.51)))
    second = Comparison((rival(COPIES, 0.50), rival(hedged(), 0.51)))
    _, decisions = run(first, second, rules=AT_ONCE)
    assert decisions[1].plan == hedged()


def test_a_plan_beyond_its_limits_is_left_at_once() -> None:
    found = Comparison((rival(NONE, 3.0, 1.0),), refused="keeps the deployed replicas busy 99% of the time")
    state, (decision,) = run(found, rules=Rules(dwell_s=1e9, repeats=9), state=State(COPIES, 0.0))
    assert (decision.plan, decision.reason) == (NONE, "beyond_limits")
    assert "busy 99%" in decision.why
    assert state == State(NONE, 30.0)


def test_with_nothing_else_to_go_to_even_a_plan_beyond_its_limits_stays() -> None:
    state, (decision,) = run(Comparison((), refused="is beyond"), rules=AT_ONCE, state=State(CODED, 0.0))
    assert (state.plan, decision.verdict) == (CODED, "best")


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), noise=st.floats(0.0, 0.09), dwell=st.sampled_from([0.0, 60.0]))
def test_between_plans_that_are_as_good_it_never_changes_however_noisy_the_advice(seed, noise, dwell) -> None:
    rng, state = random.Random(seed), State(NONE, 0.0)
    for number in range(100):
        share = 1 + rng.uniform(-noise, noise)
        plan = rng.choice([p for p in (NONE, hedged(), COPIES) if p.name != state.plan.name])
        state, decision = decide(
            state, Comparison((rival(plan, share, 0.02),)), Rules(dwell_s=dwell), 30.0 * number
        )
        assert decision.plan is None


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), dwell=st.sampled_from([0.0, 90.0, 300.0]), repeats=st.integers(1, 4))
def test_whatever_is_advised_changes_are_as_far_apart_as_the_rules_say(seed, dwell, repeats) -> None:
    rng, state, rules = random.Random(seed), State(NONE, 0.0), Rules(dwell_s=dwell, repeats=repeats)
    changes = [0.0]
    for number in range(1, 200):
        rivals = tuple(
            rival(p, rng.uniform(0.1, 1.5)) for p in rng.sample([NONE, hedged(), COPIES, CODED], 2)
        )
        state, decision = decide(state, Comparison(rivals), rules, 30.0 * number)
        if decision.plan is not None:
            changes.append(30.0 * number)
    gaps = [b - a for a, b in pairwise(changes)]
    assert all(gap >= max(dwell, 30.0 * repeats) for gap in gaps)


@pytest.mark.parametrize(
    "field", [{"gain": 1.0}, {"repeats": 0}, {"dwell_s": -1.0}, {"dwell_s": float("nan")}]
)
def test_rules_out_of_range_are_refused(field) -> None:
    with pytest.raises(ValueError, match=next(iter(field))):
        Rules(**field)
