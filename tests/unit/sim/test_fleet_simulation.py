"""Fleets in virtual time: means, penalties, storms, overload, a control plane that is gone, oscillation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from parm_ray.routing.fleet import MM1, Demand, Engine, Fleet, MGc, baselines, solve
from parm_ray.routing.fleet.feedback import Feedback, critical_gain
from parm_ray.routing.planes import AdmissionRule, ControlRule, FrontEndRule, PenaltyRule, RetryRule
from parm_ray.sim.fleet import Change, FleetRun, simulate_fleet, simulate_routing
from tests.support.fleets import three_regions

NO_PENALTY = PenaltyRule(min_samples=10**9)
OPEN = AdmissionRule(burst=1e6)


def test_the_mean_of_a_plan_is_what_the_optimizer_says() -> None:
    plan = solve(three_regions()).routing
    mean, error = simulate_routing(plan, 2_000_000, seed=3)
    assert mean == pytest.approx(plan.mean_s, rel=0.02)
    assert error < 0.01 * plan.mean_s
    proportional = baselines(three_regions())["capacity_proportional"]
    assert simulate_routing(proportional, 2_000_000, seed=4)[0] == pytest.approx(
        proportional.mean_s, rel=0.02
    )


def test_a_plan_beyond_an_engines_limit_has_no_mean() -> None:
    assert simulate_routing(baselines(three_regions())["nearest"], 1000)[0] == float("inf")


def pair(load: float) -> Fleet:
    engines = (Engine("a", MM1(500.0)), Engine("b", MM1(500.0)))
    return Fleet((Demand("x", 1000.0 * load),), engines, np.zeros((1, 2)))


def test_a_slow_engine_loses_nine_tenths_of_its_share_and_returns_in_steps() -> None:
    fleet = three_regions(0.5)
    changes = (Change(20.0, "slow", 10.0, "C"), Change(40.0, "slow", 1.0, "C"))
    found = simulate_fleet(FleetRun(fleet, duration_s=80.0, interval_s=2.0, changes=changes, seed=1))
    calls = {interval.at_s: interval.calls[2] for interval in found.intervals}
    before = np.mean([count for at, count in calls.items() if 4 < at <= 20])
    assert np.mean([count for at, count in calls.items() if 28 < at <= 40]) <= 0.1 * before
    back = [interval.penalties["C"] for interval in found.intervals if interval.at_s > 40]
    assert back[-1] == 1
    assert len({round(left, 4) for left in back}) >= 4
    assert np.mean([count for at, count in calls.items() if at > 70]) == pytest.approx(before, rel=0.3)
    assert found.count("shed") == found.count("failed") == 0


def test_an_engine_without_replicas_gets_nothing_within_an_interval() -> None:
    fleet = three_regions(0.5)
    found = simulate_fleet(FleetRun(fleet, duration_s=30.0, changes=(Change(10.5, "dead", 1, "A"),), seed=2))
    assert sum(interval.calls[0] for interval in found.intervals if interval.at_s > 11.5) == 0
    assert found.count("failed") == 0


def test_front_ends_go_on_without_a_control_plane() -> None:
    fleet = three_regions(0.8)
    run = FleetRun(fleet, duration_s=40.0, changes=(Change(10.0, "control", 1),), seed=3)
    found = simulate_fleet(run)
    assert len({interval.version for interval in found.intervals if interval.at_s > 11}) == 1
    assert found.count("ok") == len(found.requests)
    calm = simulate_fleet(replace(run, changes=()))
    assert np.quantile(found.latencies(), 0.99) < 1.25 * np.quantile(calm.latencies(), 0.99)


@pytest.mark.parametrize("most", [0.0, 0.2])
def test_a_storm_sends_no_more_than_the_budget(most: float) -> None:
    fleet = three_regions(0.4)
    rule = FrontEndRule(retry=RetryRule(most=most))
    changes = tuple(Change(5.0, "failing", 1.0, name) for name in "ABC")
    found = simulate_fleet(FleetRun(fleet, front_end=rule, duration_s=30.0, changes=changes, seed=4))
    offered = sum(interval.offered for interval in found.intervals)
    sent = sum(interval.sent for interval in found.intervals)
    assert sent <= (1 + most) * offered
    assert found.count("failed") > 0.8 * offered


def test_one_failing_engine_is_hidden_by_retries() -> None:
    found = simulate_fleet(
        FleetRun(three_regions(0.4), duration_s=60.0, changes=(Change(20.0, "failing", 1.0, "A"),), seed=5)
    )
    late = [r for r in found.requests if r.planned > 30]
    assert sum(r.outcome == "ok" for r in late) >= 0.995 * len(late)


def overload(factor: float, seed: int = 6) -> tuple[Fleet, FleetRun]:
    demands = (Demand("x", 60.0, "gold", shed_price_s=100.0), Demand("x", 30.0, "free", shed_price_s=1.0))
    fleet = Fleet(demands, (Engine("a", MM1(60.0)), Engine("b", MM1(40.0))), np.full((2, 2), 0.001))
    changes = (Change(0.0, "demand", factor, "x"),)
    return fleet, FleetRun(fleet, duration_s=400.0, warm_up_s=40.0, changes=changes, seed=seed)


def test_overload_keeps_goodput_and_latency_and_sheds_the_least_important_first() -> None:
    run = overload(1.5 / 0.9)[1]
    found = simulate_fleet(run)
    span = run.duration_s - run.warm_up_s
    assert found.count("ok") / span >= 0.95 * 100.0
    calm = simulate_fleet(overload(1.0)[1])
    assert np.quantile(found.latencies(), 0.99) <= 2 * np.quantile(calm.latencies(), 0.99)
    shed = [r for r in found.requests if r.outcome == "shed"]
    assert all(r.done == r.planned for r in shed)
    # Gold alone is 100 per second of 100: what is shed is nearly all free.
    free = sum(r.demand == "x/free" for r in found.requests)
    gold = sum(r.demand == "x/gold" for r in found.requests)
    assert found.count("shed", "x/free") >= 0.85 * free
    assert found.count("shed", "x/gold") <= 0.12 * gold
    assert found.count("shed", "x/gold") / gold < 0.15 * found.count("shed", "x/free") / free


def swing(policy: str, gain: float, load: float, delay: int) -> float:
    """How far the traffic of one engine moves, as a share of all, late in a run."""
    rule = ControlRule(policy=policy, penalty=NO_PENALTY, feedback=Feedback(gain=gain, max_step=0.9))
    run = FleetRun(
        pair(load), rule, FrontEndRule(admission=OPEN), duration_s=80.0, interval_s=2.0,
        delay_intervals=delay, seed=7,
    )  # fmt: skip
    shares = [i.calls[0] / max(1, sum(i.calls)) for i in simulate_fleet(run).intervals][20:]
    return max(shares) - min(shares)


def test_feedback_swings_where_the_plan_does_not() -> None:
    # In-flight counts damp it: the bare loop swings from one time the critical gain on.
    gain = 5 * critical_gain(0.8, 2)
    assert swing("feedback", gain, 0.8, 2) > 0.3
    assert swing("planned", gain, 0.8, 2) < 0.15


def test_a_silent_front_end_and_late_reports_do_no_harm() -> None:
    changes = (Change(5.0, "silent", 1, "B"),)
    run = FleetRun(
        three_regions(0.8), duration_s=30.0, delay_intervals=3, changes=changes, replicas=2, seed=8
    )
    found = simulate_fleet(run)
    assert found.count("ok") == len(found.requests)


def test_sessions_stay_at_their_engine_while_weights_stand() -> None:
    run = FleetRun(
        three_regions(0.4), duration_s=20.0, keys=50, front_end=FrontEndRule(admission=OPEN), seed=9
    )
    assert simulate_fleet(run).count("ok") > 0


@pytest.mark.parametrize(
    ("field", "changes"),
    [("duration_s", {"duration_s": 0}), ("warm_up_s", {"warm_up_s": 60}), ("replicas", {"replicas": 0}),
     ("changes", {"changes": (Change(1, "dead", 1, "Z"),)})],
)  # fmt: skip
def test_runs_that_make_no_sense_are_refused_by_name(field: str, changes: dict) -> None:
    with pytest.raises(ValueError, match=field):
        FleetRun(three_regions(), **changes)
    with pytest.raises(ValueError, match="kind"):
        Change(0.0, "odd", 1.0)  # type: ignore[arg-type]


def test_when_a_rate_rises_the_next_arrival_is_drawn_again() -> None:
    fleet = Fleet((Demand("x", 100.0),), (Engine("a", MM1(1000.0)),), np.zeros((1, 1)))
    changes = (
        Change(0.0, "demand", 1e-5, "x"),
        Change(10.0, "demand", 1.0, "x"),
        Change(20.0, "demand", 0.0, "x"),
    )
    found = simulate_fleet(FleetRun(fleet, duration_s=30.0, changes=changes, seed=8))
    arrivals = [request.planned for request in found.requests]
    assert 850 < len(arrivals) < 1150
    assert 10 <= min(arrivals) < 10.2
    assert 19.8 < max(arrivals) <= 20


def test_what_cannot_be_simulated_is_refused() -> None:
    fleet = three_regions()
    with pytest.raises(ValueError, match=r"at_s: expected 0..duration_s \(60\), got 61"):
        FleetRun(fleet, changes=(Change(61.0, "slow", 2.0, "A"),))
    many = replace(fleet, engines=(*fleet.engines[:2], Engine("C", MGc(80.0, 3), health=0.5)))
    with pytest.raises(ValueError, match="C: health: expected a whole number of 3 servers"):
        FleetRun(many)
    FleetRun(replace(many, engines=(*fleet.engines[:2], Engine("C", MGc(80.0, 4), health=0.5))))
