"""The old controller: it settles below its critical gain and swings above, and the optimizer does not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from parm_ray.routing.fleet import MM1, Demand, Engine, Fleet, solve
from parm_ray.routing.fleet.feedback import Controller, Feedback, Shares, bounded, critical_gain, swings

START = {"a": 0.55, "b": 0.45}


def latency_at(utilization: float) -> object:
    """Two engines of 100/s; both together get 200 times the utilization. Above capacity: very slow."""

    def latency(shares: Shares) -> Mapping[str, float]:
        loads = {name: min(200 * utilization * share, 99.99) for name, share in shares.items()}
        return {name: 1 / (100 - load) for name, load in loads.items()}

    return latency


def swing(history: list[Shares]) -> float:
    """How far a's share still moves at the end."""
    late = [shares["a"] for shares in history[-60:]]
    return max(late) - min(late)


@pytest.mark.parametrize("delay", [0, 1, 2])
@pytest.mark.parametrize("utilization", [0.5, 0.8, 0.9])
def test_it_settles_just_below_the_critical_gain_and_swings_for_ever_just_above(
    utilization: float, delay: int
) -> None:
    critical = critical_gain(utilization, delay)
    found = {}
    for factor in (0.9, 1.1):
        start = {"a": 0.501, "b": 0.499}
        controller = Controller(Feedback(factor * critical, max_step=0.9), dict(start))
        found[factor] = swing(
            swings(controller.update, start, latency_at(utilization), delay=delay, intervals=3000)  # type: ignore[arg-type]
        )
    assert found[0.9] < 1e-6
    assert found[1.1] > 0.05


def test_the_critical_gains_are_the_known_ones() -> None:
    wanted = {0.5: (2.0, 1.0, 0.618), 0.8: (0.5, 0.25, 0.1545), 0.9: (0.2222, 0.1111, 0.0687)}
    for utilization, gains in wanted.items():
        assert [critical_gain(utilization, d) for d in range(3)] == pytest.approx(gains, abs=5e-5)


@pytest.mark.parametrize("utilization", [0.5, 0.8, 0.9])
def test_the_planned_split_of_the_same_fleet_stays_where_it_is(utilization: float) -> None:
    demand = (Demand("f", 200 * utilization),)
    engines = (Engine("a", MM1(100.0)), Engine("b", MM1(100.0)))
    fleet = Fleet(demand, engines, np.zeros((1, 2)), 0.99)

    def planned(_: Mapping[str, float | None]) -> Shares:
        return dict(zip("ab", solve(fleet).routing.weights[0].tolist(), strict=True))

    history = swings(planned, START, latency_at(utilization), delay=2, intervals=5)  # type: ignore[arg-type]
    assert all(shares == pytest.approx({"a": 0.5, "b": 0.5}, abs=1e-3) for shares in history[1:])


def test_a_slower_engine_loses_and_the_shares_settle() -> None:
    controller = Controller(Feedback(0.1), {"a": 0.5, "b": 0.5})

    def latency(shares: Shares) -> Mapping[str, float]:
        return {"a": 1 / (100 - 60 * shares["a"]), "b": 1 / (50 - min(60 * shares["b"], 49))}

    history = swings(controller.update, {"a": 0.5, "b": 0.5}, latency, delay=0, intervals=2000)
    assert swing(history) < 1e-6
    assert history[-1]["a"] > 0.75
    assert sum(history[-1].values()) == pytest.approx(1.0)
    seen = latency(history[-1])
    assert seen["a"] == pytest.approx(seen["b"], rel=1e-3)


def test_who_says_nothing_is_neither_fast_nor_slow() -> None:
    controller = Controller(Feedback(0.5), {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    shares = controller.update({"a": 0.1, "b": 0.3, "c": None})
    assert shares["a"] > shares["c"] > shares["b"]
    again = controller.update({"a": None, "b": None, "c": None})
    assert again == pytest.approx(shares)


def test_shares_keep_their_bounds_and_sum_to_one() -> None:
    found = bounded({"a": 100.0, "b": 1.0, "c": 1.0}, 0.1, 0.6)
    assert found == pytest.approx({"a": 0.6, "b": 0.2, "c": 0.2})
    assert bounded({"a": 0.0, "b": 0.0}, 0.0, 1.0) == {"a": 0.5, "b": 0.5}
    floor = bounded({"a": 100.0, "b": 1.0, "c": 0.0}, 0.05, 1.0)
    assert floor["c"] == pytest.approx(0.05)
    assert sum(floor.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "knobs", [{"gain": 0.0}, {"gain": 1.0, "smoothing": 0.0}, {"gain": 1.0, "floor": 0.5, "ceiling": 0.4}]
)
def test_knobs_out_of_range_are_refused(knobs: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=list(knobs)[-1] if len(knobs) == 1 else "smoothing|floor"):
        Feedback(**knobs)
