"""`python -m load_tests.fleet_bench`: how long the fleet's optimizer takes, and one choice of an engine."""

from __future__ import annotations

import random
import sys
from statistics import median
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table

from parm_ray.routing.fleet import MM1, Demand, Engine, Fleet, solve
from parm_ray.routing.fleet.pick import Picker
from parm_ray.stats import percentile

SEEDS = 5
PICKS = 5000


def main() -> int:
    """Print both tables."""
    print("python -m load_tests.fleet_bench")
    solved = Table("front ends", "engines", "median s", "most s", "linear programs", "worst gap")
    for engines in (100, 300):
        runs = [_solved(20, engines, seed) for seed in range(SEEDS)]
        seconds = [run[0] for run in runs]
        programs = max(run[1] for run in runs)
        gap = max(run[2] for run in runs)
        solved.add_row(
            "20", str(engines), f"{median(seconds):.2f}", f"{max(seconds):.2f}", str(programs), f"{gap:.0e}"
        )
    picked = Table("engines", "keyed, median us", "keyed, p99 us", "unkeyed, median us", "unkeyed, p99 us")
    for engines in (10, 100, 1000):
        columns = [1e6 * percentile(times, q) for times in _picked(engines) for q in (0.5, 0.99)]
        picked.add_row(str(engines), *(f"{value:.1f}" for value in columns))
    Console().print(solved, picked)
    return 0


def _solved(front_ends: int, engines: int, seed: int) -> tuple[float, int, float]:
    """Return (seconds, linear programs, gap) of a random fleet at 80 % of its capacity."""
    rng = np.random.default_rng(seed)
    capacities = rng.uniform(50, 200, engines)
    rates = rng.dirichlet(np.ones(front_ends)) * capacities.sum() * 0.8
    fleet = Fleet(
        tuple(Demand(f"f{i}", float(rate)) for i, rate in enumerate(rates)),
        tuple(Engine(f"e{j}", MM1(float(capacity))) for j, capacity in enumerate(capacities)),
        rng.uniform(0.002, 0.12, (front_ends, engines)),
    )
    began = perf_counter()
    found = solve(fleet)
    return perf_counter() - began, found.rounds, found.gap


def _picked(engines: int) -> tuple[list[float], list[float]]:
    """Return the seconds of keyed and of unkeyed choices, with some requests in flight."""
    rng = np.random.default_rng(0)
    picker = Picker([f"engine-{i}" for i in range(engines)], random.Random(0))
    picker.reweigh(rng.random(engines), np.ones(engines, dtype=bool))
    picker.in_flight[:] = rng.integers(0, 5, engines)
    found: tuple[list[float], list[float]] = ([], [])
    for i in range(PICKS):
        began = perf_counter()
        picker.keyed(f"user-{i}")
        between = perf_counter()
        picker.unkeyed()
        found[0].append(between - began)
        found[1].append(perf_counter() - between)
    return found


if __name__ == "__main__":
    sys.exit(main())
