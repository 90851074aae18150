"""Fleets and front ends for tests."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from parm_ray.routing.fleet import MM1, Demand, Engine, Fleet, solve
from parm_ray.routing.fleet.snapshot import Snapshot
from parm_ray.routing.planes import FrontEnd, FrontEndRule


def three_regions(load: float = 1.0) -> Fleet:
    """The talk's example: B has more demand than capacity, C has room to spare."""
    rates, capacities = (90.0, 120.0, 40.0), (100.0, 100.0, 80.0)
    trips = [[0.002, 0.040, 0.110], [0.040, 0.002, 0.070], [0.110, 0.070, 0.002]]
    return Fleet(
        tuple(Demand(name, load * rate) for name, rate in zip("ABC", rates, strict=True)),
        tuple(Engine(name, MM1(capacity)) for name, capacity in zip("ABC", capacities, strict=True)),
        np.array(trips),
    )


def published(fleet: Fleet, version: int) -> Snapshot:
    """The optimum of a fleet as a snapshot."""
    return Snapshot.of(solve(fleet), version=version, created=0.0, ages_s={})


def front_end_of(fleet: Fleet, name: str, rng: random.Random | None = None, **rule: Any) -> FrontEnd:
    """A front end of a fleet at time 0."""
    rules = replace(FrontEndRule(), **rule)
    return FrontEnd(name, "0", fleet, rules, rng or random.Random(1), 0.0)
