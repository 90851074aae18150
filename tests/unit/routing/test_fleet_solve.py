"""The optimizer: the three regions, what has to hold of every plan, fleets that cannot serve everybody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parm_ray.config.fleet_file import load_fleet
from parm_ray.routing.fleet import (
    MG1,
    MM1,
    Demand,
    Engine,
    Fleet,
    MGc,
    Profile,
    baselines,
    network_only,
    solve,
)

FILE = Path(__file__).parents[3] / "serve_configs" / "routing" / "three_regions.yaml"


@pytest.fixture(scope="module")
def three() -> Fleet:
    return load_fleet(FILE)


def test_three_regions_have_the_known_optimum(three: Fleet) -> None:
    """Solved elsewhere with an exact solver: 110.06 ms, B's row 0 / .7465 / .2535, A sends .11 to B."""
    found = solve(three)
    assert 1e3 * found.routing.mean_s == pytest.approx(110.056, rel=1e-4)
    assert found.routing.loads == pytest.approx([89.89, 89.69, 70.42], abs=0.02)
    assert found.routing.weights[1] == pytest.approx([0.0, 0.7465, 0.2535], abs=2e-4)
    assert found.routing.shed == pytest.approx([0, 0, 0], abs=1e-9)
    assert found.gap <= 1e-6
    # A's own engine and B's, both in use by A, cost the same; so do B's and C's for B.
    ways = three.network_s + found.prices
    assert ways[0, 0] == pytest.approx(ways[0, 1], abs=1e-4)
    assert ways[1, 1] == pytest.approx(ways[1, 2], abs=1e-4)
    assert [ways[0, 0], ways[1, 1], ways[2, 2]] == pytest.approx([0.9803, 0.9423, 0.8743], abs=2e-3)
    assert found.kkt_s < 1e-3


def test_the_usual_plans_are_worse_or_have_no_bound(three: Fleet) -> None:
    others = baselines(three)
    assert others["nearest"].loads.tolist() == [90, 120, 40]
    assert others["nearest"].mean_s == float("inf")
    assert others["round_robin"].mean_s == float("inf")
    proportional = others["capacity_proportional"]
    assert proportional.loads == pytest.approx([89.29, 89.29, 71.43], abs=0.01)
    assert 1e3 * proportional.mean_s == pytest.approx(143.89, abs=0.01)
    network = network_only(three)
    assert network.loads == pytest.approx([95, 95, 60])
    assert 1e3 * network.mean_s == pytest.approx(172.2, abs=0.1)


def test_little_traffic_stays_at_home(three: Fleet) -> None:
    quiet = replace(three, demands=tuple(replace(d, rate=0.4 * d.rate) for d in three.demands))
    assert solve(quiet).routing.weights == pytest.approx(np.eye(3), abs=1e-6)


def test_with_an_engine_dead_the_rest_is_full_and_what_is_over_is_shed(three: Fleet) -> None:
    a, b, c = three.engines
    dead = replace(three, engines=(a, replace(b, health=0.0), c))
    found = solve(dead)
    assert found.routing.loads == pytest.approx([95, 0, 76])
    assert found.routing.shed.sum() == pytest.approx(79.0)
    assert any("shed" in words for words in found.binding)
    assert any(words.startswith("A: at 95 %") for words in found.binding)


def test_what_is_shed_is_what_costs_least(three: Fleet) -> None:
    a, b, c = three.engines
    cheap, dear = replace(three.demands[1], shed_price_s=10.0), replace(three.demands[0], shed_price_s=50.0)
    dead = replace(three, engines=(a, replace(b, health=0.0), c), demands=(dear, cheap, three.demands[2]))
    shed = solve(dead).routing.shed
    assert shed[0] == pytest.approx(0.0, abs=1e-6)
    assert shed.sum() == pytest.approx(79.0)


def test_profiles_are_solved_exactly() -> None:
    """By hand: B sends 30 to C, 498.64 ms; loads 90 / 90 / 70."""
    used, seconds = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95), (0.20, 0.22, 0.26, 0.32, 0.50, 0.80)
    fleet = replace(
        load_fleet(FILE),
        engines=tuple(
            Engine(name, Profile(tuple(c * u for u in used), seconds))
            for name, c in (("A", 100), ("B", 100), ("C", 80))
        ),
        max_utilization=1.0,
    )
    found = solve(fleet)
    assert found.rounds == 1
    assert found.routing.loads == pytest.approx([90, 90, 70])
    assert 1e3 * found.routing.mean_s == pytest.approx(498.64, abs=0.01)


def test_a_switching_cost_keeps_traffic_where_it_is(three: Fleet) -> None:
    now = solve(three).routing.flows
    busier = replace(
        three, demands=(three.demands[0], replace(three.demands[1], rate=121.0), three.demands[2])
    )
    free = np.abs(solve(busier).routing.flows - now).sum()
    kept = solve(replace(busier, switching_s=0.5), before=now)
    assert np.abs(kept.routing.flows - now).sum() == pytest.approx(1.0, abs=0.05)
    assert free > 1.2
    # What it costs to stay is in the objective, and the proof holds with it.
    assert kept.gap <= 1e-6


def test_needs_are_kept_and_what_nobody_can_serve_is_shed(three: Fleet) -> None:
    a, b, c = three.engines
    able = (replace(a, has=frozenset({"eu"})), b, replace(c, has=frozenset({"eu", "large"})))
    eu = replace(three.demands[1], needs=frozenset({"eu"}))
    both = replace(three.demands[2], name="both", needs=frozenset({"eu", "large", "gold"}))
    fleet = Fleet((three.demands[0], eu, both), able, three.network_s, three.max_utilization)
    found = solve(fleet).routing
    assert found.flows[1, 1] == 0.0
    assert found.flows[2].tolist() == [0.0, 0.0, 0.0]
    assert found.shed[2] == pytest.approx(40.0)


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    m, n = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    capabilities = ("x", "y")
    engines = []
    for j in range(m):
        limit = float(rng.uniform(5, 200))
        latency = [MM1(limit), MG1(limit, float(rng.uniform(0, 5))), MGc(limit, int(rng.integers(1, 30)))][
            rng.integers(3)
        ]
        has = frozenset(name for name in capabilities if rng.random() < 0.7)
        engines.append(Engine(f"e{j}", latency, has, float(rng.choice([0.0, 0.5, 1.0], p=[0.1, 0.2, 0.7]))))
    demands = tuple(
        Demand(
            f"f{i}",
            float(rng.uniform(0, 150)),
            needs=frozenset(name for name in capabilities if rng.random() < 0.2),
            shed_price_s=float(rng.choice([10.0, 100.0])),
        )
        for i in range(n)
    )
    network = rng.uniform(0, 0.2, (n, m))
    network[rng.random((n, m)) < 0.1] = np.nan
    return Fleet(
        demands, tuple(engines), network, float(rng.uniform(0.5, 0.98)), float(rng.choice([0.0, 0.01]))
    )


@given(fleets())
@settings(max_examples=60, deadline=None)
def test_of_every_fleet(fleet: Fleet) -> None:
    rng = np.random.default_rng(0)
    before = rng.uniform(0, 20, fleet.network_s.shape) * fleet.eligible
    found = solve(fleet, before)
    routing = found.routing
    assert routing.flows.sum(axis=1) + routing.shed == pytest.approx(fleet.rates, abs=1e-6)
    assert (routing.flows >= 0).all()
    assert (routing.shed >= 0).all()
    assert (routing.loads <= fleet.most + 1e-6).all()
    assert not routing.flows[~fleet.eligible].any()
    assert found.bound_s <= found.objective_s * (1 + 1e-9) + 1e-12
    assert found.gap <= 1e-6
    # No other plan that keeps the constraints is better: those that are usual, made to fit by shedding.
    for other in baselines(fleet).values():
        over = np.divide(
            np.minimum(other.loads, fleet.most),
            other.loads,
            out=np.ones(len(fleet.engines)),
            where=other.loads > 0,
        )
        flows = other.flows * over
        shed = fleet.rates - flows.sum(axis=1)
        price = np.array([demand.shed_price_s for demand in fleet.demands])
        used = flows > 0
        cost = (flows[used] * fleet.network_s[used]).sum() + price @ shed
        cost += sum(e.total(y) for e, y in zip(fleet.engines, flows.sum(axis=0), strict=True))
        if fleet.switching_s:
            cost += fleet.switching_s * np.abs(flows - before).sum()
        assert found.objective_s <= cost * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_utilization": 1.0}, "delay has no bound"),
        ({"switching_s": -1.0}, "switching_s"),
        ({"network_s": np.zeros((3, 2))}, "network_s: expected shape"),
        ({"network_s": np.full((3, 3), -1.0)}, "A to A: expected seconds >= 0"),
        ({"engines": ()}, "engines"),
    ],
)
def test_what_is_wrong_is_named(three: Fleet, change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(three, **change)  # type: ignore[arg-type]
