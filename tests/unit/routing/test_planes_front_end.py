"""A front end's data plane: guardrails, old plans, limits, reports."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from parm_ray.core import Overloaded
from parm_ray.routing.fleet import MM1, Demand, Engine, Fleet, solve
from parm_ray.routing.fleet.pick import NoEngine
from parm_ray.routing.fleet.snapshot import Snapshot
from parm_ray.routing.planes import AdmissionRule, FrontEnd, FrontEndRule, RetryRule
from tests.support.fleets import front_end_of, published, three_regions


def test_shares_are_the_plans() -> None:
    fleet = three_regions()
    plane = front_end_of(fleet, "B", admission=AdmissionRule(burst=1e6))
    plane.install(published(fleet, 1), 0.0)
    chosen = np.zeros(3)
    for n in range(20_000):
        j = plane.route("default", n / 120)
        chosen[j] += 1
        plane.begin(j, n / 120)
        plane.end(j, n / 120, n / 120, True)
    assert chosen / chosen.sum() == pytest.approx([0.0, 0.7465, 0.2535], abs=0.01)


def test_without_a_plan_it_goes_to_the_nearest() -> None:
    plane = front_end_of(three_regions(), "B")
    assert {plane.route("default", 0.0) for _ in range(50)} == {1}


def test_an_engine_without_replicas_gets_nothing_at_once_and_the_rest_take_over() -> None:
    fleet = three_regions()
    plane = front_end_of(fleet, "B")
    plane.install(published(fleet, 1), 0.0)
    plane.ready("B", 0, 1.0)
    assert {plane.route("default", 1.0) for _ in range(50)} == {2}
    plane.ready("C", 0, 2.0)
    # What the plan uses is gone: whoever is there.
    assert {plane.route("default", 2.0) for _ in range(50)} == {0}
    plane.ready("A", 0, 3.0)
    with pytest.raises(NoEngine):
        plane.route("default", 3.0)
    plane.ready("B", 1, 4.0)
    assert plane.route("default", 4.0) == 1


def test_an_older_plan_is_ignored() -> None:
    fleet = three_regions()
    plane = front_end_of(fleet, "B")
    assert plane.install(published(fleet, 5), 0.0)
    assert not plane.install(published(fleet, 4), 1.0)
    assert not plane.install(published(fleet, 5), 1.0)
    assert plane.snapshot is not None
    assert plane.snapshot.version == 5


def test_a_plan_that_is_too_old_gives_way_to_what_is_near() -> None:
    fleet = three_regions()
    plane = front_end_of(fleet, "B", stale_s=10, expired_s=100)
    plane.install(published(fleet, 1), 0.0)
    shares = []
    for now in (5.0, 50.0, 100.0, 150.0, 200.0, 1000.0):
        plane.refresh(now)
        shares.append((plane.freshness(now), round(plane.weights()["default"]["C"], 4)))
    assert shares == [
        ("fresh", 0.2535), ("stale", 0.2535), ("stale", 0.2535), ("expired", 0.1268), ("expired", 0.0),
        ("expired", 0.0),
    ]  # fmt: skip


def test_a_plan_that_is_too_old_does_not_turn_requests_away() -> None:
    fleet = three_regions(1.5)
    plane = front_end_of(fleet, "B", stale_s=10, expired_s=100)
    plane.install(published(fleet, 1), 0.0)

    def passed(now: float) -> int:
        found = 0
        for _ in range(100):
            try:
                plane.route("default", now)
                found += 1
            except Overloaded:
                pass
        return found

    assert passed(0.0) < 100
    assert plane.budget.ratio == 0
    plane.refresh(99.0)
    assert plane.budget.ratio == 0
    plane.refresh(101.0)
    assert passed(101.0) == 100
    assert plane.budget.ratio == pytest.approx(0.2)
    # A new plan counts again.
    plane.install(published(fleet, 2), 102.0)
    assert passed(102.0) < 100


def test_an_engine_that_was_declared_dead_is_used_once_a_plan_says_so() -> None:
    fleet = three_regions()
    dead = replace(fleet, engines=(*fleet.engines[:2], replace(fleet.engines[2], health=0.0)))
    plane = front_end_of(dead, "C", admission=AdmissionRule(burst=1e6))
    plane.install(published(fleet, 1), 0.0)
    assert {plane.route("default", 0.0) for _ in range(50)} == {2}
    # Without a plan it is the nearest that may serve, and was found.
    alone = front_end_of(dead, "C")
    alone.ready("C", 1, 0.0)
    assert {alone.route("default", 0.0) for _ in range(50)} == {2}


def test_a_retry_goes_to_who_was_not_tried_then_to_who_failed_first() -> None:
    plane = front_end_of(three_regions(), "B")
    plane.install(published(three_regions(), 1), 0.0)
    assert plane.once_more("default", None, [1]) == 2
    # The plan gives B no share of A.
    assert plane.once_more("default", None, [1, 2]) == 1
    plane.ready("C", 0, 0.0)
    assert plane.once_more("default", None, [1]) == 1
    for name in "AB":
        plane.ready(name, 0, 0.0)
    assert plane.once_more("default", None, [1]) is None


def test_who_fails_at_once_is_avoided_though_nothing_is_in_flight_there() -> None:
    fleet = Fleet((Demand("x", 10.0),), (Engine("a", MM1(50.0)), Engine("b", MM1(50.0))), np.zeros((1, 2)))
    plane = front_end_of(fleet, "x", admission=AdmissionRule(burst=1e6))
    plane.install(published(fleet, 1), 0.0)
    sent = [0, 0]
    for _ in range(500):
        j = plane.route("default", 0.0)
        sent[j] += 1
        plane.begin(j, 0.0)
        if j == 0:
            plane.end(j, 0.0, 0.0, False)
    assert 10 <= sent[0] < 40


def test_failures_in_a_row_keep_an_engine_to_a_tenth_until_one_succeeds() -> None:
    fleet = three_regions()
    plane = front_end_of(fleet, "B")
    plane.install(published(fleet, 1), 0.0)
    for _ in range(5):
        plane.begin(1, 0.0)
        plane.end(1, 0.0, 0.1, False)
    assert plane.weights()["default"]["B"] == pytest.approx(0.07465 / (0.07465 + 0.2535), abs=1e-3)
    plane.begin(1, 0.0)
    plane.end(1, 0.0, 0.1, True)
    assert plane.weights()["default"]["B"] == pytest.approx(0.7465, abs=1e-3)


def test_full_engines_spill_over_and_then_turn_away_the_least_important_first() -> None:
    demands = (Demand("x", 50.0, "gold", shed_price_s=100.0), Demand("x", 50.0, "free", shed_price_s=1.0))
    engines = (Engine("near", MM1(100.0)), Engine("far", MM1(100.0)))
    fleet = Fleet(demands, engines, np.array([[0.0, 0.1]] * 2))
    plane = front_end_of(fleet, "x", admission=AdmissionRule(burst=1.0, reserve=0.5, min_in_flight=10))
    plane.install(published(fleet, 1), 0.0)
    taken = {"gold": 0, "free": 0}
    refused = {"gold": False, "free": False}
    while not refused["gold"]:
        for name in ("free", "gold"):
            try:
                plane.begin(plane.route(name, 0.0), 0.0)
                taken[name] += 1
            except Overloaded:
                refused[name] = True
            assert refused["free"] or not refused["gold"]
    assert plane.in_flight.min() >= 10
    assert taken["gold"] > taken["free"]


@pytest.mark.parametrize("far", ["idle", "of no use", "away", "failing", "idle, in overload"])
def test_where_the_plan_has_no_room_left_an_engine_that_it_had_no_need_of_takes_over(far: str) -> None:
    demands = (Demand("x", 10.0, needs=frozenset({"eu"})),)
    has = frozenset() if far == "of no use" else frozenset({"eu"})
    engines = (Engine("near", MM1(100.0), frozenset({"eu"})), Engine("far", MM1(100.0), has))
    fleet = Fleet(demands, engines, np.array([[0.0, 0.1]]))
    plane = front_end_of(fleet, "x", admission=AdmissionRule(burst=0.01, min_in_flight=3))
    plan = published(fleet, 1)
    plane.install(replace(plan, shed=plan.rates * 0.01) if "overload" in far else plan, 0.0)
    assert plane.weights()["default"] == {"near": 1.0, "far": 0.0}
    for _ in range(5 if far == "failing" else 0):
        plane.begin(1, 0.0)
        plane.end(1, 0.0, 0.0, False)
    plane.ready("far", int(far != "away"), 0.0)
    for wanted in [0, 0, 0, *([1, 1, 1] if far == "idle" else [])]:
        j = plane.another("default")
        assert j == wanted
        plane.begin(j, 0.0)
    with pytest.raises(Overloaded, match="every engine is full"):
        plane.another("default")


def test_a_report_says_what_happened_since_the_last() -> None:
    plane = front_end_of(three_regions(), "B")
    j = plane.route("default", 1.0)
    plane.begin(j, 1.0)
    plane.end(j, 1.0, 1.5, True)
    plane.begin(j, 2.0)
    plane.begin(j, 3.0)
    plane.end(j, 3.0, 3.5, False)
    plane.begin(j, 3.0)
    plane.end(j, 3.0, 3.5, None)
    report = plane.report(4.0)
    seen = report.engines["B"]
    assert (report.seconds, report.arrivals) == (4.0, {"default": 1})
    assert (seen.answers, seen.seconds, seen.failures, seen.waiting, seen.waited_s) == (1, 0.5, 1, 1, 2.0)
    # One of three that has waited for 2 s says nothing yet.
    assert seen.mean_s == pytest.approx(0.5)
    # Two of four: slower than the answers alone say.
    assert replace(seen, waiting=2, waited_s=4.0).mean_s == pytest.approx(1.5)
    again = plane.report(5.0)
    assert (again.arrivals, again.engines["B"].answers, again.engines["B"].waiting) == ({"default": 0}, 0, 1)


def test_the_budget_follows_the_plans_utilisation_and_what_is_in_flight() -> None:
    fleet = three_regions()
    plane = front_end_of(fleet, "B", retry=RetryRule(most=0.2, full_below=0.5, none_above=0.95))
    assert plane.budget.ratio == pytest.approx(0.2)
    plane.install(published(fleet, 1), 0.0)
    assert plane.budget.ratio == pytest.approx(0.2 * (0.95 - 250 / 280) / 0.45, abs=1e-6)
    plane.calls.in_flight += 1000
    plane.refresh(1.0)
    assert plane.budget.ratio == 0


def test_a_demand_that_nobody_can_serve_takes_no_retries_from_the_others() -> None:
    demands = (Demand("x", 10.0), Demand("x", 10.0, "gpu", frozenset({"gpu"})))
    fleet = Fleet(demands, (Engine("a", MM1(100.0)), Engine("b", MM1(100.0))), np.zeros((2, 2)))
    plane = front_end_of(fleet, "x")
    snapshot = published(fleet, 1)
    assert snapshot.shed[1] == 10
    plane.install(snapshot, 0.0)
    assert plane.budget.ratio == pytest.approx(0.2)


def test_requests_that_find_engines_full_do_not_use_up_what_may_pass() -> None:
    fleet = three_regions(1.5)
    plane = front_end_of(fleet, "B", admission=AdmissionRule(burst=0.001, min_in_flight=1))
    plane.install(published(fleet, 1), 0.0)
    for j in range(3):
        plane.begin(j, 0.0)
    for n in range(100):
        with pytest.raises(Overloaded, match="full"):
            plane.route("default", 1.0 + n / 1000)
    plane.end(1, 0.0, 1.2, True)
    assert plane.route("default", 1.2) == 1


def test_a_retry_may_go_to_one_that_has_room_though_it_was_tried() -> None:
    fleet = three_regions()
    plane = front_end_of(fleet, "B", admission=AdmissionRule(burst=0.001, min_in_flight=1))
    plane.install(published(fleet, 1), 0.0)
    for j in (0, 2):
        plane.begin(j, 0.0)
    assert plane.once_more("default", None, [1]) == 1


def test_a_front_end_that_the_fleet_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        FrontEnd("nowhere", "0", three_regions(), FrontEndRule(), random.Random(1), 0.0)
    with pytest.raises(ValueError, match="stale_s"):
        FrontEndRule(stale_s=10, expired_s=1)


def test_a_snapshot_of_a_plan_without_prices_explains_itself() -> None:
    fleet = three_regions()
    snapshot = Snapshot.of(solve(fleet).routing, version=1, created=0.0, ages_s={})
    assert any("by feedback" in line for line in snapshot.explain("B/default"))
