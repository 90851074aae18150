"""Second calls: no more than granted, nothing near saturation, and what waits in backoff counts."""

from __future__ import annotations

import pytest

from parm_ray.redundancy.budget import Budget
from parm_ray.routing.planes import RetryBudget, RetryRule


def test_the_ratio_falls_with_load_to_nothing() -> None:
    rule = RetryRule(most=0.2, full_below=0.5, none_above=0.9)
    assert [rule.ratio(load) for load in (0.0, 0.5, 0.7, 0.9, 1.2)] == pytest.approx([0.2, 0.2, 0.1, 0, 0])


@pytest.mark.parametrize("load", [0.0, 0.6, 0.8])
def test_a_storm_gets_no_more_than_the_ratio(load: float) -> None:
    budget = RetryBudget(RetryRule())
    budget.load(load)
    sent = 0
    for n in range(10_000):
        budget.request(n * 0.001)
        sent += budget.schedule(n * 0.001)
    assert sent <= budget.ratio * 10_000
    assert sent >= 0.95 * budget.ratio * 10_000 - 2
    assert budget.granted == budget.in_backoff == sent


def test_what_waits_in_backoff_has_its_token_already() -> None:
    # A thousand failures at once, of which none has been sent again yet.
    budget = RetryBudget(RetryRule(most=0.2))
    for _ in range(1000):
        budget.request(0.0)
    granted = sum(budget.schedule(0.0) for _ in range(1000))
    assert granted <= 200
    assert budget.in_backoff == granted


def test_load_that_comes_during_the_backoff_stops_the_retry() -> None:
    budget = RetryBudget(RetryRule(most=1.0))
    for _ in range(10):
        budget.request(0.0)
    assert budget.schedule(0.0)
    budget.load(1.0)
    assert not budget.leave()
    assert (budget.granted, budget.in_backoff) == (0, 0)
    assert not budget.hedge(0.2)


def test_what_is_not_sent_after_all_can_be_sent_for_another() -> None:
    budget = RetryBudget(RetryRule(most=0.2))
    for _ in range(5):
        budget.request(0.0)
    assert budget.schedule(0.0)
    assert not budget.hedge(0.0)
    budget.drop()
    assert (budget.granted, budget.in_backoff, budget.refused) == (0, 0, 1)
    assert budget.schedule(0.0)
    assert budget.leave()
    budget.give_back()
    assert (budget.granted, budget.in_backoff) == (0, 0)
    assert budget.hedge(0.0)
    assert not budget.hedge(0.0)


def test_what_was_saved_is_gone_with_the_ratio() -> None:
    budget = Budget(1.0)
    for _ in range(100):
        budget.deposit(0.0)
    budget.retune(0.0)
    assert budget.tokens <= 1
    with pytest.raises(ValueError, match="ratio"):
        budget.retune(1.5)


def test_backoffs_double_within_their_bounds() -> None:
    rule = RetryRule(backoff_s=0.1, max_backoff_s=0.3)
    assert [rule.wait_s(n, 1.0) for n in (1, 2, 3, 9)] == pytest.approx([0.1, 0.2, 0.3, 0.3])
    assert rule.wait_s(1, 0.0) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("field", "changes"),
    [("most", {"most": 1.5}), ("full_below", {"full_below": 0.9, "none_above": 0.5}),
     ("attempts", {"attempts": 0}), ("backoff_s", {"backoff_s": 2.0, "max_backoff_s": 1.0})],
)  # fmt: skip
def test_rules_that_make_no_sense_are_refused_by_name(field: str, changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=field):
        RetryRule(**changes)
