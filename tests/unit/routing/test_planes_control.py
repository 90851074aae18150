"""What the control plane makes of what it hears: rates, ages, health, penalties, plans that stay."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from parm_ray.routing.fleet import MM1, Demand, Engine, Fleet
from parm_ray.routing.fleet.feedback import Feedback
from parm_ray.routing.planes import Ages, ControlPlane, ControlRule, PenaltyRule, Report, Seen
from tests.support.fleets import three_regions

RULE = ControlRule(smoothing_s=0.0)


def heard(control: ControlPlane, now: float, rates: dict[str, float], seen: dict[str, Seen] | None = None):
    for name, rate in rates.items():
        count = round(rate * 10)
        control.inputs.report(Report(name, "0", 10.0, {"default": count}, engines=seen or {}), now)


def test_without_any_word_the_plan_is_for_what_was_declared() -> None:
    snapshot = ControlPlane(three_regions(), RULE).decide(0.0, 1000.0)
    assert snapshot is not None
    assert snapshot.mean_s == pytest.approx(0.11006, rel=1e-3)
    assert snapshot.loads == pytest.approx([89.89, 89.69, 70.42], abs=0.02)
    assert set(snapshot.ages_s.values()) == {None}


def test_rates_that_are_heard_take_the_place_of_the_declared_ones() -> None:
    control = ControlPlane(three_regions(), RULE)
    heard(control, 5.0, {"A": 36, "B": 48, "C": 16})
    snapshot = control.decide(6.0, 0.0)
    assert snapshot is not None
    # At four tenths of the load nothing has to travel.
    assert snapshot.weights == pytest.approx(np.eye(3), abs=1e-6)
    assert snapshot.ages_s["demand of A"] == pytest.approx(1.0)


def test_rates_are_smoothed_and_replicas_add_up() -> None:
    control = ControlPlane(three_regions(), replace(RULE, smoothing_s=10 / math.log(2)))
    for at, count in ((1.0, 100), (2.0, 200)):
        for replica in ("0", "1"):
            control.inputs.report(Report("A", replica, 10.0, {"default": count}), at)
    assert control.inputs.fleet(2.0).rates[0] == pytest.approx(2 * (10 + 0.5 * 10))
    assert control.inputs.replicas(2.0) == {"A": 2}


def test_what_is_seen_between_two_decisions_is_judged_together_and_once() -> None:
    control = ControlPlane(three_regions(), RULE)
    for at in (1.0, 1.5):
        seen = {"A": Seen(7, 0.7, 1, waiting=2, waited_s=0.5)}
        control.inputs.report(Report("A", "0", 0.5, {"default": 7}, engines=seen), at)
    assert control.inputs.seen("A", 2.0) == [("A", Seen(14, 1.4, 2, waiting=2, waited_s=0.5))]
    control.decide(2.0, 0.0)
    assert control.inputs.seen("A", 2.0) == []


def test_a_silent_front_end_keeps_its_rate_until_it_is_lost() -> None:
    control = ControlPlane(three_regions(), replace(RULE, ages=Ages(stale_s=5, lost_s=60)))
    heard(control, 0.0, {"B": 30})
    assert control.inputs.fleet(59.0).rates[1] == pytest.approx(30)
    assert control.inputs.replicas(59.0) == {"B": 1}
    assert control.inputs.fleet(61.0).rates[1] == 120
    assert control.inputs.ages(61.0)["demand of B"] is None


def test_a_replica_that_was_replaced_does_not_count_beside_the_new_one() -> None:
    control = ControlPlane(three_regions(), replace(RULE, ages=Ages(stale_s=5, lost_s=180)))
    for at, replica in ((0.0, "old"), (0.0, "older"), (6.0, "new"), (6.0, "newer")):
        control.inputs.report(Report("A", replica, 1.0, {"default": 20}), at)
    assert control.inputs.fleet(4.0).rates[0] == pytest.approx(80)
    assert control.inputs.fleet(6.0).rates[0] == pytest.approx(40)
    assert control.inputs.replicas(6.0) == {"A": 2}
    # All are silent: what they said last is kept, and how many they were.
    assert control.inputs.fleet(100.0).rates[0] == pytest.approx(80)
    assert control.inputs.replicas(100.0) == {"A": 4}


def test_a_way_that_is_declared_not_to_be_there_is_not_there_however_near_it_measures() -> None:
    fleet = three_regions()
    trips = fleet.network_s.copy()
    trips[0, 2] = np.nan
    control = ControlPlane(replace(fleet, network_s=trips), RULE)
    control.inputs.network("A", "C", 0.0, 0.0)
    snapshot = control.decide(1.0, 0.0)
    assert snapshot is not None
    assert math.isnan(snapshot.network_s[0, 2])
    assert snapshot.weights[0, 2] == 0


def test_an_engine_that_answers_more_than_was_planned_for_is_not_slow_for_it() -> None:
    control = ControlPlane(three_regions(0.5), RULE)
    for n in range(4):
        # C was to have 20 a second of 80, and has 76, at what its model says of that.
        seen = {"A": Seen(45, 0.9), "B": Seen(60, 1.5), "C": Seen(76, 76 * 0.25)}
        control.inputs.report(Report("C", "0", 1.0, {"default": 20}, engines={"C": seen.pop("C")}), float(n))
        control.inputs.report(Report("A", "0", 1.0, {"default": 45}, engines={"A": seen["A"]}), float(n))
        control.inputs.report(Report("B", "0", 1.0, {"default": 60}, engines={"B": seen["B"]}), float(n))
        control.decide(float(n), 0.0)
        assert control.penalties.multipliers["C"] == 1


def test_one_call_that_hangs_is_one_sample_however_many_decisions_see_it() -> None:
    control = ControlPlane(three_regions(), RULE)
    for n in range(30):
        seen = {"A": Seen(20, 0.4), "B": Seen(20, 0.4), "C": Seen(waiting=1, waited_s=1.0 + n)}
        control.inputs.report(Report("B", "0", 1.0, {"default": 48}, engines=seen), float(n))
        control.decide(float(n), 0.0)
        assert control.penalties.multipliers["C"] == 1


def test_a_demand_without_traffic_has_weights_for_its_first_request() -> None:
    control = ControlPlane(three_regions(), RULE)
    heard(control, 0.0, {"A": 0, "B": 0, "C": 0})
    snapshot = control.decide(0.0, 0.0)
    assert snapshot is not None
    assert snapshot.weights.sum(axis=1) == pytest.approx([1, 1, 1])


def test_a_round_trip_that_was_measured_takes_the_place_of_the_declared_one_until_it_is_lost() -> None:
    control = ControlPlane(three_regions(), replace(RULE, ages=Ages(stale_s=5, lost_s=60)))
    control.inputs.network("B", "A", 0.001, 0.0)
    near = control.decide(1.0, 0.0)
    assert near is not None
    assert near.network_s[1].tolist() == [0.001, 0.002, 0.070]
    control.inputs.ready("A", 1.0, 100.0)
    far = control.decide(100.0, 0.0)
    assert far is not None
    assert far.network_s[1, 0] == 0.040


def test_with_b_dead_as_much_as_needed_is_shed() -> None:
    control = ControlPlane(three_regions(), RULE)
    control.inputs.ready("B", 0.0, 0.0)
    snapshot = control.decide(0.0, 0.0)
    assert snapshot is not None
    assert snapshot.shed.sum() == pytest.approx(79.0, abs=0.01)
    assert snapshot.weights[:, 1].sum() == 0


def slow_c(control: ControlPlane, now: float, factor: float = 10.0) -> None:
    """All engines answer as their models say, but C."""
    expected = {"A": 1 / 64, "B": 1 / 52, "C": 1 / 64}
    seen = {name: Seen(100, 100 * s * (factor if name == "C" else 1)) for name, s in expected.items()}
    for name, away in (("C", 0.002), ("B", 0.07), ("A", 0.11)):
        there = {e: replace(one, seconds=one.seconds + 100 * away * (e == "C")) for e, one in seen.items()}
        rate = {"A": 36.0, "B": 48.0, "C": 16.0}[name]
        report = Report(name, "0", 10.0, {"default": round(10 * rate)}, engines={"C": there["C"]})
        control.inputs.report(report, now)
    control.inputs.report(Report("A", "1", 10.0, {}, engines={"A": seen["A"], "B": seen["B"]}), now)


def test_an_engine_that_is_ten_times_as_slow_loses_its_traffic_and_gets_it_back() -> None:
    control = ControlPlane(three_regions(), RULE)
    loads = []
    for n in range(12):
        slow_c(control, float(n), 10.0 if 1 <= n < 5 else 1.0)
        snapshot = control.decide(float(n), 0.0)
        assert snapshot is not None
        loads.append(float(snapshot.loads[2]))
        assert snapshot.shed.sum() == 0
    assert loads[3] <= 0.1 * loads[0]
    assert loads[4] > 0
    steps = loads[5:11]
    assert all(later > earlier for earlier, later in pairwise(steps))
    assert loads[11] == pytest.approx(loads[0], rel=1e-3)
    assert control.penalties.reasons == {}


def test_calls_that_are_out_yet_do_not_make_a_slow_engine_look_well() -> None:
    control = ControlPlane(three_regions(), RULE)
    for n in range(4):
        slow_c(control, float(n))
        control.decide(float(n), 0.0)
    held = control.penalties.multipliers["C"]
    for n in range(4, 10):
        seen = {"C": Seen(waiting=5, waited_s=0.05)}
        control.inputs.report(Report("C", "0", 1.0, {"default": 16}, engines=seen), float(n))
        control.decide(float(n), 0.0)
        assert control.penalties.multipliers["C"] == held


def test_a_penalty_turns_no_request_away() -> None:
    """Panic rule: where only penalised engines may serve, they do."""
    demands = (Demand("x", 10.0, "only", frozenset({"eu"})), Demand("x", 10.0, "any"))
    engines = (
        Engine("eu", MM1(100.0), frozenset({"eu"})),
        Engine("us", MM1(100.0)),
        Engine("ap", MM1(100.0)),
    )
    control = ControlPlane(Fleet(demands, engines, np.zeros((2, 3))), RULE)
    for n in range(4):
        seen = {"eu": Seen(20, 4.0), "us": Seen(20, 0.2), "ap": Seen(20, 0.2)}
        control.inputs.report(Report("x", "0", 1.0, {"only": 10, "any": 10}, engines=seen), float(n))
        snapshot = control.decide(float(n), 0.0)
    assert snapshot is not None
    assert control.penalties.multipliers["eu"] < 0.1
    assert snapshot.shed.sum() == 0
    assert snapshot.weights[0].tolist() == [1, 0, 0]


def test_what_would_fail_is_turned_away_instead() -> None:
    demands, engines = (Demand("x", 150.0),), tuple(Engine(name, MM1(100.0)) for name in "abc")
    control = ControlPlane(Fleet(demands, engines, np.zeros((1, 3))), RULE)
    for n in range(5):
        seen = {"a": Seen(failures=50), "b": Seen(100, 2.0), "c": Seen(100, 2.0)}
        control.inputs.report(Report("x", "0", 1.0, {"default": 210}, engines=seen), float(n))
        snapshot = control.decide(float(n), 0.0)
    assert snapshot is not None
    assert control.penalties.failing == {"a"}
    assert snapshot.weights[0, 0] < 0.02
    assert snapshot.shed[0] == pytest.approx(210 - 190, abs=3)


def test_a_plan_that_cannot_be_made_leaves_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    control = ControlPlane(three_regions(), RULE)
    first = control.decide(0.0, 0.0)

    def broken(*_: object) -> None:
        raise ValueError("no solver today")

    monkeypatch.setattr("parm_ray.routing.planes.control.solve", broken)
    assert control.decide(1.0, 0.0) is first
    assert control.failed == "no solver today"

    def odd(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(control.inputs, "seen", odd)
    assert control.decide(2.0, 0.0) is first
    assert control.failed == "ZeroDivisionError"


def test_versions_go_on_where_the_last_control_plane_ended() -> None:
    control = ControlPlane(three_regions(), RULE, first_version=41)
    versions = [found.version for _ in range(3) if (found := control.decide(0.0, 0.0)) is not None]
    assert versions == [41, 42, 43]


def test_feedback_moves_shares_to_the_faster_engine() -> None:
    demands, engines = (Demand("x", 10.0),), (Engine("fast", MM1(100.0)), Engine("slow", MM1(100.0)))
    rule = ControlRule(policy="feedback", feedback=Feedback(gain=0.3), penalty=PenaltyRule(min_samples=1000))
    control = ControlPlane(Fleet(demands, engines, np.zeros((1, 2))), rule)
    seen = {"fast": Seen(100, 1.0), "slow": Seen(100, 2.0)}
    shares = []
    for n in range(5):
        control.inputs.report(Report("x", "0", 1.0, {"default": 10}, engines=seen), float(n))
        snapshot = control.decide(float(n), 0.0)
        assert snapshot is not None
        shares.append(float(snapshot.weights[0, 0]))
    assert all(later > earlier > 0.5 for earlier, later in pairwise(shares))


def test_reports_of_another_fleet_are_refused() -> None:
    control = ControlPlane(three_regions(), RULE)
    with pytest.raises(ValueError, match="front_end: D"):
        control.inputs.report(Report("D", "0", 1.0), 0.0)
    with pytest.raises(ValueError, match="seconds"):
        control.inputs.report(Report("A", "0", 0.0), 0.0)
    with pytest.raises(ValueError, match="policy"):
        ControlRule(policy="magic")  # type: ignore[arg-type]
