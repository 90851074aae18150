"""Fleets as fluids: what they agree on with requests that are played, and hours of many engines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from parm_ray.routing.fleet import MG1, MM1, Demand, Engine, Fleet, MGc, Profile
from parm_ray.routing.fleet.feedback import Feedback
from parm_ray.routing.planes import AdmissionRule, Ages, ControlRule, FrontEndRule, PenaltyRule, RetryRule
from parm_ray.sim.fleet import (
    Change,
    Daily,
    FleetRun,
    FluidInterval,
    Incidents,
    fluid_phases,
    phases,
    simulate_fleet,
    simulate_fluid,
)
from parm_ray.sim.fleet.fluid_engine import FluidEngine
from tests.support.fleets import three_regions

MODELS = [
    MM1(100.0),
    MG1(100.0, 0.2),
    MGc(100.0, 8, 2.0),
    Profile((0.0, 50.0, 80.0, 100.0), (0.05, 0.06, 0.1, 0.4)),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("load", [1.0, 40.0, 90.0])
def test_in_the_long_run_a_fluid_is_as_slow_as_its_model_says(model: MM1, load: float) -> None:
    engine = FluidEngine(Engine("a", model))
    for _ in range(2000):
        ended, latency, refused = engine.step(load * 0.5, 0.5, 1e9)
    assert ended == pytest.approx(load * 0.5, rel=1e-6)
    assert latency == pytest.approx(model.total(load) / load, rel=0.01)
    assert refused == 0


def test_beyond_its_limit_a_fluid_grows_by_what_is_too_much_and_drains_at_its_limit() -> None:
    engine = FluidEngine(Engine("a", MM1(100.0)))
    for _ in range(10):
        engine.step(150.0, 1.0, 1e9)
    assert engine.number == pytest.approx(500, rel=0.02)
    ended, latency, _ = engine.step(0.0, 1.0, 1e9)
    assert ended == pytest.approx(100, rel=0.01)
    assert latency == pytest.approx(engine.number / 100, rel=0.02)
    engine.slow = 10.0
    assert engine.step(0.0, 1.0, 1e9)[0] == pytest.approx(10, rel=0.01)
    refused = engine.step(50.0, 1.0, 20.0)[2]
    assert engine.number == 20
    assert refused > 300


def means(load: float, duration_s: float = 200.0) -> tuple[float, float]:
    """Of the fluid, and of requests that are played."""
    run = FleetRun(three_regions(load), duration_s=duration_s, warm_up_s=20.0, seed=3)
    some = [one for one in simulate_fluid(run).intervals if one.at_s > run.warm_up_s]
    mean = sum(one.mean_s * one.answered for one in some) / sum(one.answered for one in some)
    return mean, float(np.mean(simulate_fleet(run).latencies()))


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_means_are_those_of_requests_that_are_played(load: float) -> None:
    fluid, played = means(load)
    assert fluid == pytest.approx(played, rel=0.15)


def test_in_overload_means_are_too_high_by_as_much_as_the_simulators_page_says() -> None:
    fluid, played = means(1.5, 60.0)
    assert 2 <= fluid / played <= 3


def test_a_slow_a_failing_and_an_overwhelmed_fleet_do_as_played() -> None:
    demands = (Demand("x", 45.0, "gold", shed_price_s=100.0), Demand("x", 45.0, "free", shed_price_s=1.0))
    engines = (Engine("a", MM1(60.0)), Engine("b", MM1(40.0)), Engine("c", MM1(50.0)))
    changes = (
        Change(40.0, "slow", 10.0, "b"), Change(80.0, "slow", 1.0, "b"), Change(120.0, "failing", 1.0, "a"),
        Change(160.0, "failing", 0.0, "a"), Change(200.0, "demand", 2.5, "x"), Change(260.0, "dead", 1, "a"),
    )  # fmt: skip
    run = FleetRun(
        Fleet(demands, engines, np.full((2, 3), 0.002)), duration_s=300.0, warm_up_s=10.0, changes=changes
    )
    for fluid, played in zip(
        fluid_phases(run, simulate_fluid(run)), phases(run, simulate_fleet(run)), strict=True
    ):
        assert fluid["answered_per_s"] == pytest.approx(played["answered_per_s"], rel=0.06), fluid["changes"]
        assert fluid["shed"] == pytest.approx(played["shed"], abs=0.05), fluid["changes"]
        assert fluid["failed"] <= 0.02
        for name, share in fluid["shares"].items():
            assert share == pytest.approx(played["shares"][name], abs=0.08), (fluid["changes"], name)


def test_every_request_is_answered_shed_failed_or_there() -> None:
    demands = (Demand("x", 30.0), Demand("x", 5.0, "eu", frozenset({"eu"})), Demand("y", 30.0))
    engines = (Engine("a", MM1(50.0), frozenset({"eu"})), Engine("b", MM1(50.0)), Engine("c", MM1(50.0)))
    fleet = Fleet(demands, engines, np.array([[0.01, 0.02, 0.03]] * 2 + [[0.02, 0.01, np.nan]]))
    changes = Incidents(per_hour=30.0, silent_per_hour=60.0, mean_s=20.0).changes("abc", "xy", 600.0, 5)
    run = FleetRun(
        fleet, duration_s=600.0, replicas=2, delay_intervals=1, background=tuple(changes), seed=4,
        front_end=FrontEndRule(retry=RetryRule(attempts=2)),
    )  # fmt: skip
    intervals = simulate_fluid(run).intervals
    assert len(intervals) == 600
    for one in intervals:
        assert min(one.answered, one.shed, one.failed, one.sent, *one.calls) >= 0
        assert one.sent <= 1.2 * one.offered + 1e-6
    ended = sum(one.answered + one.shed + one.failed for one in intervals)
    assert ended == pytest.approx(sum(one.offered for one in intervals), rel=0.01)
    assert sum(one.answered for one in intervals) > 0.9 * ended


def swing(policy: str, gain: float) -> float:
    fleet = Fleet((Demand("x", 800.0),), (Engine("a", MM1(500.0)), Engine("b", MM1(480.0))), np.zeros((1, 2)))
    rule = ControlRule(
        policy=policy,  # type: ignore[arg-type]
        penalty=PenaltyRule(min_samples=10**9),
        feedback=Feedback(gain=gain, max_step=0.9),
    )
    run = FleetRun(
        fleet, rule, FrontEndRule(admission=AdmissionRule(burst=1e6)), duration_s=600.0, interval_s=5.0,
        delay_intervals=1, seed=7,
    )  # fmt: skip
    late = [one.calls[0] / one.sent for one in simulate_fluid(run).intervals[60:]]
    return max(late) - min(late)


def test_feedback_swings_where_a_plan_does_not() -> None:
    assert swing("feedback", 2.0) > 0.5
    assert swing("planned", 2.0) < 0.1


def test_the_day_goes_round_and_comes_later_further_west() -> None:
    changes = Daily(0.5, period_s=400.0, step_s=10.0).changes(["east", "west"], 400.0)
    east = [change.value for change in changes if change.name == "east"]
    west = [change.value for change in changes if change.name == "west"]
    assert len(east) == len(west) == 40
    assert (min(east), max(east)) == pytest.approx((0.5, 1.5))
    assert east == pytest.approx([2 - value for value in west])
    with pytest.raises(ValueError, match="amplitude"):
        Daily(1.1)
    with pytest.raises(ValueError, match="step_s"):
        Daily(0.1, period_s=10.0, step_s=20.0)


def test_incidents_end_before_the_next_one_of_the_same_engine() -> None:
    names = [f"e{n}" for n in range(50)]
    changes = Incidents(per_hour=2.0, mean_s=100.0, slow=7.0).changes(names, ["x"], 36_000.0, 3)
    begun = [change for change in changes if change.value == (7.0 if change.kind == "slow" else 1.0)]
    # 20 an engine, less the time that they last.
    assert len(begun) == pytest.approx(50 * 36_000 / (1800 + 100), rel=0.1)
    assert {change.kind for change in begun} == {"slow", "failing", "dead"}
    for name in names:
        mine = [change for change in changes if change.name == name]
        assert [change.at_s for change in mine] == sorted(change.at_s for change in mine)
        for first, second in zip(mine[::2], mine[1::2], strict=False):
            assert first.kind == second.kind
            assert second.value == (1.0 if first.kind == "slow" else 0.0)
    for field, value in (
        ("per_hour", -1.0),
        ("mean_s", 0.0),
        ("slow", 0.0),
        ("silent_per_hour", float("nan")),
    ):
        with pytest.raises(ValueError, match=field):
            Incidents(**{field: value})


def answered(intervals: list[FluidInterval]) -> float:
    return sum(one.answered for one in intervals) / sum(one.offered for one in intervals)


def test_an_hour_of_many_engines_with_the_day_and_incidents() -> None:
    rng = np.random.default_rng(2)
    capacities = rng.uniform(50, 150, 40)
    names, front_ends = [f"e{j}" for j in range(40)], [f"f{i}" for i in range(6)]
    fleet = Fleet(
        tuple(Demand(name, 0.6 * capacities.sum() / 6) for name in front_ends),
        tuple(Engine(name, MM1(c)) for name, c in zip(names, capacities, strict=True)),
        rng.uniform(0, 0.1, (6, 40)),
    )
    background = (
        *Daily(0.5, period_s=3600.0, step_s=30.0).changes(front_ends, 3600.0),
        *Incidents(per_hour=0.5, silent_per_hour=1.0, mean_s=120.0).changes(names, front_ends, 3600.0, 1),
    )
    run = FleetRun(
        fleet,
        ControlRule(ages=Ages(60.0, 600.0)),
        duration_s=3600.0,
        interval_s=30.0,
        background=background,
    )
    planned = simulate_fluid(run).intervals
    calm = simulate_fluid(replace(run, background=background[: 6 * 120])).intervals
    assert len(planned) == 120
    assert answered(calm) == pytest.approx(1, abs=1e-3)
    assert answered(planned) > 0.97
    loads = np.array([one.offered for one in calm])
    assert loads.max() == pytest.approx(loads.min(), rel=0.01)
    assert any(one.penalties for one in planned)
    assert not any(one.penalties for one in calm)
