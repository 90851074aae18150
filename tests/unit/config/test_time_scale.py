"""A scenario in slow motion keeps its loads, shares and bytes, and stretches everything that is a time."""

from typing import Any

import numpy as np
import pytest

from parm_ray.config.scenario import Scenario
from parm_ray.config.time_scale import slowed
from parm_ray.core import ConfigError
from parm_ray.scenarios import simulate_cell

GIVEN: dict[str, Any] = {
    "name": "brief",
    "m": 2,
    "rates": [20, 30],
    "queries": 400,
    "service": {"kind": "hyperexponential", "shares": [0.9, 0.1], "means_s": [0.04, 0.1]},
    "slowness": {"share": 0.02, "factor": 10},
    "path": {"overhead_ms": 3, "slot_ms": 1},
    "plans": [
        {"name": "none", "deployed": 2},
        {"name": "hedged", "deployed": 3, "plan": {"kind": "hedged"}},
        {"name": "coded", "deployed": 2, "parity": 1, "plan": {"kind": "coded", "hold_off_ms": 70, "k": 2}},
        {
            "name": "fixed",
            "deployed": 3,
            "plan": {
                "kind": "coded",
                "pool": "shared",
                "hedge": {"rule": "fixed", "delay_ms": 80, "budget_ratio": 1},
            },
        },
    ],
}


def test_times_are_stretched_and_rates_lowered_defaults_included() -> None:
    before = Scenario.model_validate(GIVEN)
    after = slowed(before, 4)
    assert [load for _, load in after.points()] == pytest.approx([load for _, load in before.points()])
    assert after.rates == (5, 7.5)
    assert after.service == {"kind": "hyperexponential", "shares": [0.9, 0.1], "means_s": [0.16, 0.4]}
    assert (after.deadline_ms, after.batch.wait_ms) == (20_000, 8)
    assert (after.path.overhead_ms, after.path.slot_ms) == (12, 4)
    assert (after.slowness, after.queries, after.seed) == (before.slowness, before.queries, before.seed)
    _, hedged, coded, fixed = (plan.plan for plan in after.plans)
    assert (coded.k, coded.hold_off_ms, coded.fill_timeout_ms) == (2, 280, 80)
    assert hedged.hedge is not None
    assert hedged.hedge.budget_floor_per_s == 0.25
    assert fixed.hedge is not None
    assert fixed.hedge.delay_ms == 320
    assert fixed.hedge.budget_ratio == 1


@pytest.mark.parametrize("plan", range(len(GIVEN["plans"])))
def test_the_simulator_says_the_same_of_it_times_the_factor(plan: int) -> None:
    """By four: a power of two, so that no sum is rounded otherwise."""
    before = Scenario.model_validate(GIVEN)
    after = slowed(before, 4)
    quick = simulate_cell(before, before.plans[plan], 1, 0).found
    slow = simulate_cell(after, after.plans[plan], 1, 0).found
    np.testing.assert_allclose(slow.latency, 4 * quick.latency, rtol=1e-9)
    assert slow.extra_work == pytest.approx(quick.extra_work)


def test_links_are_as_many_times_slower_and_bytes_stay() -> None:
    lab = {"model_nodes": 3, "link": {"rate_mbit": 200, "latency_ms": 5}}
    found = slowed(
        Scenario.model_validate(GIVEN | {"lab": lab, "shuffles": {"size_mb": [27, 53], "pause_s": 1}}), 2
    )
    assert found.lab == {"model_nodes": 3, "link": {"rate_mbit": 100, "latency_ms": 10, "rto_min_ms": 400}}
    assert found.shuffles == {"size_mb": [27, 53], "pause_s": 2}
    for link, missing in (({}, "rate_mbit"), ({"rate_mbit": 100}, "latency_ms")):
        with pytest.raises(ConfigError, match=rf"lab\.link\.{missing}"):
            slowed(Scenario.model_validate(GIVEN | {"lab": {"model_nodes": 3, "link": link}}), 2)


def test_the_bins_of_a_trace_of_counts_are_longer_though_nobody_wrote_down_how_long_they_are() -> None:
    trace = {"kind": "trace", "trace": "counts.csv", "holds": "counts"}
    assert slowed(Scenario.model_validate(GIVEN | {"arrivals": trace}), 4).arrivals.bin_s == 4


def test_a_second_model_faults_and_arrivals_are_slowed_with_the_rest() -> None:
    stall = {"kind": "stall", "replica": "deployed/0", "at_s": 3, "for_s": 1}
    more = {
        "second_model": {"nodes": 1, "rate": 8},
        "faults": [stall],
        "arrivals": {"kind": "bursts", "spacing_ms": 2},
        "slowness": {"episodes": {"mean_s": 1, "mean_between_s": 9}},
        "network": {"hit": 0.1, "delay_ms": 5},
    }
    found = slowed(Scenario.model_validate(GIVEN | more), 2)
    assert found.second_model is not None
    assert (found.second_model.nodes, found.second_model.rate) == (1, 4)
    assert (found.faults[0].at_s, found.faults[0].for_s) == (6, 2)
    assert found.arrivals.spacing_ms == 4
    assert found.slowness.episodes is not None
    assert (found.slowness.episodes.mean_s, found.slowness.episodes.mean_between_s) == (2, 18)
    assert found.network is not None
    assert (found.network.hit, found.network.delay_ms) == (0.1, 10)


def test_one_changes_nothing_and_nonsense_is_refused() -> None:
    scenario = Scenario.model_validate(GIVEN)
    assert slowed(scenario, 1) is scenario
    for factor in (0, -1, float("nan"), 1e9):
        with pytest.raises(ConfigError, match="scale"):
            slowed(scenario, factor)
