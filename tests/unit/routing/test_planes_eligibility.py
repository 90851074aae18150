"""Who may serve a demand is asked in every path: choices, retries, old plans, plans that lie."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from parm_ray.core import Overloaded
from parm_ray.routing.fleet import MM1, Demand, Engine, Fleet
from parm_ray.routing.fleet.pick import NoEngine
from parm_ray.routing.planes import AdmissionRule, NotEligible
from tests.support.fleets import front_end_of, published


def test_an_engine_that_may_not_serve_is_never_chosen_by_whatever_way() -> None:
    """F1: 100,000 picks with every mechanism on; snapshots that lie about who may, too."""
    rng = random.Random(7)
    violations = picks = 0
    while picks < 100_000:
        count = rng.randrange(2, 7)
        has = [frozenset(rng.sample(["gpu", "eu", "big"], rng.randrange(4))) for _ in range(count)]
        engines = tuple(Engine(f"e{j}", MM1(50.0), has[j]) for j in range(count))
        demands = tuple(
            Demand(
                "here", 5.0, f"d{n}", frozenset(rng.sample(["gpu", "eu", "big"], rng.randrange(3))), 1.0 + n
            )
            for n in range(3)
        )
        fleet = Fleet(demands, engines, np.array([[rng.random() for _ in engines] for _ in demands]))
        plane = front_end_of(fleet, "here", rng, admission=AdmissionRule(min_in_flight=3))
        lying = published(fleet, 1)
        plane.install(replace(lying, weights=np.ones_like(lying.weights)), 0.0)
        now = 0.0
        for _ in range(500):
            now += rng.expovariate(5.0)
            demand = rng.choice(demands)
            roll = rng.random()
            if roll < 0.02:
                plane.ready(rng.choice(engines).name, rng.randrange(2), now)
            elif roll < 0.03:
                now += 400  # the plan is too old
                plane.refresh(now)
            key = f"k{rng.randrange(20)}" if rng.random() < 0.5 else None
            without = () if rng.random() < 0.7 else (rng.randrange(count),)
            picks += 1
            try:
                j = (
                    plane.another(demand.name, key, without)
                    if without
                    else plane.route(demand.name, now, key)
                )
            except (NoEngine, Overloaded):
                continue
            violations += not demand.needs <= engines[j].has or j in without
            plane.begin(j, now)
            if rng.random() < 0.9:
                plane.end(j, now, now + 0.1, rng.random() < 0.7)
    assert violations == 0


def test_nobody_may_ever_is_its_own_error() -> None:
    fleet = Fleet(
        (Demand("here", 1.0, "eu", frozenset({"eu"})),), (Engine("us", MM1(10.0)),), np.zeros((1, 1))
    )
    plane = front_end_of(fleet, "here")
    with pytest.raises(NotEligible, match="eu"):
        plane.route("eu", 0.0)
