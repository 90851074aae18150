"""Who is penalised, by how much, and how it comes back."""

from __future__ import annotations

import pytest

from parm_ray.routing.planes.penalty import Penalties, PenaltyRule
from parm_ray.routing.planes.signals import Health, Seen


def health(
    ratio: float, seconds: float = 1.0, failed: float = 0.0, samples: int = 50, out: int = 0
) -> Health:
    """So many calls, of which a share failed, and `out` more are out; all as much slower than expected."""
    failures = round(failed * samples)
    answers = samples - failures
    seen = Seen(answers, answers * seconds, failures, out, out * seconds)
    return Health.of(seen, seconds / ratio)


def healths(ratios: dict[str, float], samples: int = 50, failed: dict[str, float] | None = None):
    return {
        name: health(ratio, ratio, (failed or {}).get(name, 0.0), samples) for name, ratio in ratios.items()
    }


def test_a_slow_engine_of_three_loses_nine_tenths_within_three_intervals() -> None:
    # With mean and standard deviation one of three is never further out than 1.41 sigma.
    penalties = Penalties(["a", "b", "c"], PenaltyRule())
    for _ in range(3):
        left = penalties.update(healths({"a": 1.0, "b": 1.2, "c": 10.0}))
    assert left["c"] <= 0.1
    assert left["a"] == left["b"] == 1
    assert "10.0 times" in penalties.reasons["c"]


def test_it_keeps_a_trickle_and_returns_in_steps() -> None:
    penalties = Penalties(["a", "b", "c"], PenaltyRule(floor=0.02, recovery=2.0))
    for _ in range(10):
        left = penalties.update(healths({"a": 1.0, "b": 1.0, "c": 10.0}))
    assert left["c"] == 0.02
    steps = [penalties.update(healths({"a": 1.0, "b": 1.0, "c": 1.0}))["c"] for _ in range(6)]
    assert steps == pytest.approx([0.04, 0.08, 0.16, 0.32, 0.64, 1.0])


def test_of_two_the_slower_one_is_the_outlier() -> None:
    left = Penalties(["a", "b"], PenaltyRule()).update(healths({"a": 1.0, "b": 10.0}))
    assert left == {"a": 1.0, "b": 0.25}


def test_when_all_are_slow_nobody_is_penalised() -> None:
    rule = PenaltyRule(slo_s=2.0)
    left = Penalties(["a", "b", "c"], rule).update(healths({"a": 9.0, "b": 10.0, "c": 11.0}))
    assert set(left.values()) == {1.0}


def test_the_bound_holds_for_one_that_is_no_outlier_by_its_ratio() -> None:
    seen = {"a": health(1.0, 0.1), "b": health(1.0, 0.1), "c": health(1.0, 3.0)}
    assert Penalties(["a", "b", "c"], PenaltyRule(slo_s=2.0)).update(seen)["c"] == 0.25
    assert Penalties(["a", "b", "c"], PenaltyRule()).update(seen)["c"] == 1


def test_failing_fast_does_not_look_fast() -> None:
    seen = healths({"a": 1.0, "b": 1.0, "c": 0.01}, failed={"c": 0.9})
    penalties = Penalties(["a", "b", "c"], PenaltyRule())
    assert penalties.update(seen)["c"] == 0.25
    assert "90 %" in penalties.reasons["c"]


def test_no_more_than_the_share_is_penalised_and_the_cap_is_not_passed_around() -> None:
    names = list("abcdef")
    penalties = Penalties(names, PenaltyRule(max_share=0.34))
    seen = healths({"a": 1.0, "b": 1.0, "c": 1.0, "d": 20.0, "e": 30.0, "f": 1.1})
    seen["c"] = health(40.0, 40.0)
    first = {name for name, left in penalties.update(seen).items() if left < 1}
    assert first == {"c", "e"}
    for _ in range(5):
        assert {name for name, left in penalties.update(seen).items() if left < 1} == first


def test_a_penalised_engine_is_judged_by_its_few_probes() -> None:
    penalties = Penalties(["a", "b", "c"], PenaltyRule(probes=3, patience=10))
    others = healths({"a": 1.0, "b": 1.0})
    for _ in range(2):
        penalties.update({**others, **healths({"c": 10.0})})
    held = penalties.multipliers["c"]
    trickle = {**others, **healths({"c": 10.0}, samples=1)}
    lefts = [penalties.update(trickle)["c"] for _ in range(6)]
    # Every third probe is a judgement: still slow.
    assert lefts == pytest.approx([held, held, 0.02, 0.02, 0.02, 0.02])
    assert "10.0 times" in penalties.reasons["c"]
    trickle = {**others, **healths({"c": 1.0}, samples=1)}
    assert [penalties.update(trickle)["c"] for _ in range(3)] == pytest.approx([0.02, 0.02, 0.04])


def test_one_that_gets_no_call_at_all_is_given_more_after_a_while() -> None:
    penalties = Penalties(["a", "b", "c"], PenaltyRule(patience=4))
    for _ in range(3):
        penalties.update(healths({"a": 1.0, "b": 1.0, "c": 10.0}))
    lefts = [penalties.update(healths({"a": 1.0, "b": 1.0}))["c"] for _ in range(8)]
    assert lefts == pytest.approx([0.02] * 3 + [0.04] * 4 + [0.08])


def test_calls_of_several_intervals_count_together_until_they_are_enough() -> None:
    penalties = Penalties(["a", "b", "c"], PenaltyRule(min_samples=10))
    failing = {**healths({"a": 1.0, "b": 1.0}), **healths({"c": 1.0}, samples=4, failed={"c": 1.0})}
    assert [penalties.update(failing)["c"] for _ in range(3)] == [1, 1, 0.25]


def test_calls_that_are_out_in_two_intervals_count_once() -> None:
    penalties = Penalties(["a", "b", "c"], PenaltyRule(min_samples=10))
    others = healths({"a": 1.0, "b": 1.0})
    for out in (4, 5, 6, 7, 8, 9):
        assert penalties.update({**others, "c": health(50.0, 5.0, samples=0, out=out)})["c"] == 1
    assert penalties.update({**others, "c": health(50.0, 5.0, samples=0, out=10)})["c"] == 0.25


def test_engines_that_agree_by_chance_make_no_outlier() -> None:
    left = Penalties(["a", "b", "c"], PenaltyRule()).update(healths({"a": 0.5, "b": 0.5, "c": 2.3}))
    assert set(left.values()) == {1.0}


def test_what_is_not_known_is_neither_good_nor_bad() -> None:
    penalties = Penalties(["a", "b", "c"], PenaltyRule(min_samples=10))
    left = penalties.update({**healths({"a": 1.0, "b": 1.0}), **healths({"c": 50.0}, samples=9)})
    assert left["c"] == 1
    assert penalties.update(healths({"a": 1.0, "b": 1.0}))["c"] == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("deviations", 0.0), ("least_ratio", 1.0), ("step", 1.0), ("floor", 0.0), ("recovery", 1.0),
     ("probes", 0), ("patience", 0), ("max_share", 1.1), ("min_samples", 0), ("slo_s", 0.0),
     ("failed_share", 1.0)],
)  # fmt: skip
def test_rules_that_make_no_sense_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        PenaltyRule(**{field: value})
