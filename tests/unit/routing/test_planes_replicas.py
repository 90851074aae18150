"""A handle's data plane: replicas by the weights of their keys, of a table or of a plan."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from parm_ray.routing.fleet import MM1, Demand, Engine, Fleet
from parm_ray.routing.fleet.snapshot import Snapshot
from parm_ray.routing.planes import ControlPlane, ControlRule
from parm_ray.routing.planes.replicas import Known, ReplicaPlane, ReplicaRule
from tests.support.fleets import published

FLEET = Fleet(
    (Demand("here", 20.0), Demand("here", 20.0, "odd", frozenset({"eu"}))),
    (Engine("a", MM1(50.0), frozenset({"eu"})), Engine("b", MM1(50.0)), Engine("c", MM1(50.0))),
    np.zeros((2, 3)),
)


def plane(keys: str = "abc", seed: int = 1, **rule: object) -> ReplicaPlane:
    """Replicas r0, r1, ... of these keys."""
    found = ReplicaPlane("me", ReplicaRule(**rule), random.Random(seed), 0.0)  # type: ignore[arg-type]
    found.know({f"r{i}": Known(key) for i, key in enumerate(keys)}, 0.0)
    return found


def plan(version: int, weights: list[float], engines: tuple[str, ...] = ("a", "b", "c")) -> Snapshot:
    found = published(FLEET, version)
    return replace(found, engines=engines, weights=np.array([weights, [1.0, 0.0, 0.0]]))


def shares(found: ReplicaPlane, picks: int = 20_000, full: tuple[str, ...] = ()) -> dict[str, float]:
    counts = Counter(found.choose(full)[0] for _ in range(picks))
    return {name: count / picks for name, count in counts.items()}


def test_shares_are_the_tables() -> None:
    found = shares(plane(weights={"a": 1, "b": 2, "c": 0}))
    assert found == {"r0": pytest.approx(1 / 3, abs=0.02), "r1": pytest.approx(2 / 3, abs=0.02)}


def test_replicas_of_one_key_share_its_weight() -> None:
    assert plane("aab", weights={"a": 1, "b": 2}).weights == pytest.approx(
        {"r0": 1 / 6, "r1": 1 / 6, "r2": 2 / 3}
    )


def test_a_key_that_is_not_named_has_the_default_and_a_weight_of_its_own_comes_before_it() -> None:
    one = plane("az", weights={"a": 3}, default=1.0)
    assert one.weights == pytest.approx({"r0": 0.75, "r1": 0.25})
    one.know({"r0": Known("a", 1.0), "r1": Known("a", 1.0), "r2": Known("z", 4.0)}, 0.0)
    assert one.weights == pytest.approx({"r0": 0.1, "r1": 0.1, "r2": 0.8})


def test_of_two_that_are_drawn_it_is_the_one_with_less_in_flight_for_its_weight() -> None:
    one = plane("ab", weights={"a": 1, "b": 3})
    for _ in range(4):
        one.sent("r1")
    assert one.in_flight == {"r0": 0, "r1": 4}
    # b would be drawn twice with 9/16, and else loses to a, which is idle.
    assert shares(one)["r1"] == pytest.approx(9 / 16, abs=0.02)
    one.sent("r0")
    one.sent("r0")
    assert shares(one)["r1"] == pytest.approx(15 / 16, abs=0.02)
    for _ in range(9):
        one.done("r1")
    assert one.in_flight == {"r0": 2, "r1": 0}


def test_who_is_full_is_passed_over_and_who_has_no_weight_is_no_way_out() -> None:
    one = plane(weights={"a": 1, "b": 2, "c": 0})
    assert shares(one, full=("r1", "gone")) == {"r0": 1.0}
    assert {len(one.choose()) for _ in range(50)} == {2}
    assert one.choose(("r1",)) == ["r0"]
    # All are full: whoever is asked first may have room by now.
    assert sorted(one.choose(("r0", "r1"))) == ["r0", "r1"]


def test_when_all_that_the_weights_name_is_gone_it_is_whoever_is_there() -> None:
    one = plane("cd", weights={"a": 1, "c": 0, "d": 0})
    assert one.weights == {"r0": 0.5, "r1": 0.5}
    one.know({}, 0.0)
    assert one.choose() == []
    assert one.weights == {}


def test_replicas_that_stay_keep_what_is_in_flight() -> None:
    one = plane("ab")
    one.sent("r0")
    one.sent("r1")
    one.know({"r1": Known("b"), "r2": Known("a")}, 0.0)
    assert one.in_flight == {"r1": 1, "r2": 0}
    # What was at the one that is gone ends, too.
    one.done("r0")
    assert one.in_flight == {"r1": 1, "r2": 0}


def test_a_plan_takes_the_place_of_the_table_until_it_is_too_old() -> None:
    one = plane("abbd", weights={"a": 1}, demand="here/default", expired_s=60.0)
    assert one.install(plan(5, [0.2, 0.8, 0.0]), 1.0)
    # d is none of its engines: it plans nothing for it.
    planned = {"r0": 0.2, "r1": 0.4, "r2": 0.4, "r3": 0.0}
    assert one.weights == pytest.approx(planned)
    assert not one.install(plan(5, [1.0, 0.0, 0.0]), 2.0)
    assert not one.install(plan(4, [1.0, 0.0, 0.0]), 2.0)
    one.refresh(61.0)
    assert one.weights == pytest.approx(planned)
    one.refresh(61.1)
    assert one.weights == pytest.approx({"r0": 1 / 3, "r1": 1 / 6, "r2": 1 / 6, "r3": 1 / 3})
    assert one.age_s(61.1) == pytest.approx(60.1)


def test_a_plan_that_routes_nothing_of_the_demand_has_no_say() -> None:
    one = plane("ab", weights={"a": 3}, demand="here/default")
    one.install(plan(1, [0.0, 0.0, 0.0]), 0.0)
    assert one.weights == pytest.approx({"r0": 0.75, "r1": 0.25})


def test_a_plan_without_the_demand_is_refused_and_changes_nothing() -> None:
    one = plane("ab", demand="there/default")
    with pytest.raises(ValueError, match="demand: expected one of here/default, here/odd, got there/default"):
        one.install(plan(1, [1.0, 0.0, 0.0]), 0.0)
    assert one.snapshot is None
    assert one.weights == {"r0": 0.5, "r1": 0.5}


def test_reports_say_what_came_and_how_the_keys_of_the_plan_did() -> None:
    one = plane("abd", demand="here/default")
    one.install(plan(1, [0.5, 0.5, 0.0]), 0.0)
    one.begin("r0", 1.0)(1.5, True)
    one.begin("r0", 1.0)(3.0, False)
    one.begin("r1", 2.0)(2.5, None)
    one.begin("r1", 3.0)
    one.begin("r2", 1.0)(9.0, True)
    one.begin("nobody", 1.0)(9.0, True)
    report = one.report(4.0)
    assert (report.front_end, report.replica, report.seconds) == ("here", "me", 4.0)
    assert report.arrivals == {"default": 6}
    assert set(report.engines) == {"a", "b", "c"}
    a, b = report.engines["a"], report.engines["b"]
    assert (a.answers, a.seconds, a.failures) == (1, 0.5, 1)
    assert (b.answers, b.failures, b.waiting, b.waited_s) == (0, 0, 1, pytest.approx(1.0))
    assert one.report(5.0).arrivals == {"default": 0}
    # A control plane takes it.
    ControlPlane(FLEET, ControlRule()).inputs.report(report, 4.0)


def test_who_fails_again_and_again_is_left_alone_at_once_and_back_when_one_succeeds() -> None:
    one = plane("ab", demand="here/default")
    one.install(plan(1, [0.5, 0.5, 0.0]), 0.0)
    for _ in range(5):
        one.begin("r0", 1.0)(1.0, False)
    assert one.weights["r0"] == pytest.approx(0.1 / 1.1)
    one.begin("r0", 1.0)(1.0, True)
    assert one.weights["r0"] == pytest.approx(0.5)


def test_calls_of_a_plan_with_other_engines_do_not_count_in_the_next_one() -> None:
    one = plane("ab", demand="here/default")
    one.install(plan(1, [0.5, 0.5, 0.0]), 0.0)
    ended = one.begin("r1", 1.0)
    one.install(plan(2, [0.5, 0.5, 0.0], ("b", "a", "d")), 2.0)
    ended(3.0, True)
    assert all(seen.answers == seen.waiting == 0 for seen in one.report(4.0).engines.values())


@pytest.mark.parametrize(
    "bad", [{"weights": {"a": -1.0}}, {"weights": {"a": float("nan")}}, {"default": -1.0}]
)
def test_weights_that_cannot_be_are_refused_by_name(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"weights: (a|default): expected a finite number >= 0"):
        ReplicaRule(**bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expired_s: expected seconds > 0, got nan"):
        ReplicaRule(expired_s=float("nan"))
