"""Which shape of the tail wants which redundancy: by closed form, and by simulation where there is none.

Joshi, Soljanin and Wornell (2017): for log-convex service times maximum redundancy lowers latency and cost at
every load; for log-concave ones it lowers latency at low load alone, and with load it is the fewest copies,
cancelled early, that are fast. What is neither has to be computed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from parm_ray.advisor import early_cancel, full_fork, groups
from parm_ray.sim.forks import Forking, simulate_forks
from parm_ray.stats.families import (
    Bimodal,
    Exponential,
    Family,
    Hyperexponential,
    Pareto,
    ShiftedExponential,
    Uniform,
    Weibull,
)

N = 4
COPIES = (1, 2, 4)
CONVEX: list[Family] = [Weibull(0.7, 1.0), Hyperexponential(0.9, (1.0, 0.1))]
CONCAVE: list[Family] = [Uniform(0.0, 2.0), ShiftedExponential(0.5, 2.0), Weibull(1.4, 1.0)]
NEITHER: list[tuple[Family, int]] = [
    (Pareto(1.0, 1.2), 2),
    (Pareto(1.0, 2.5), 1),
    (Bimodal(1.0, 10.0, 0.05), 1),
]


def simulated(keep: int, x: Family, rate: float) -> tuple[float, float]:
    """(latency, cost) of a fork to all servers that keeps the first `keep` to start."""
    strategy = Forking(N, N, keep)
    found = simulate_forks(strategy, x, rate, np.random.default_rng(21), jobs=400, runs=512)
    return float(found.latency_s.mean()), float(found.cost_s.mean())


@pytest.mark.parametrize("x", CONVEX, ids=repr)
def test_log_convex_times_want_every_copy_at_every_load(x: Family) -> None:
    assert x.log_tail == "convex"
    costs = [r * x.min_mean(r) for r in range(1, 9)]
    assert costs == sorted(costs, reverse=True)
    assert len(set(costs)) == 8
    for load in (0.0, 0.3, 0.6, 0.95):
        rate = load * N / x.mean
        latencies = [groups(x, N, r, rate).latency_s for r in COPIES]
        assert latencies[0] > latencies[1] > latencies[2]
    for load in (0.2, 0.8):
        by_keep = [simulated(keep, x, load * N / x.mean) for keep in COPIES]
        # All copies are faster and cheaper than two, two than one.
        assert by_keep[0][0] > by_keep[1][0] > by_keep[2][0]
        assert by_keep[0][1] > by_keep[1][1] > by_keep[2][1]


@pytest.mark.parametrize("x", CONCAVE, ids=repr)
def test_log_concave_times_want_fewer_copies_as_the_load_grows(x: Family) -> None:
    assert x.log_tail == "concave"
    costs = [r * x.min_mean(r) for r in range(1, 9)]
    assert costs == sorted(costs)
    assert len(set(costs)) == 8
    # Idle servers: every copy still makes a job faster.
    latencies = [full_fork(x, n, 0.0).latency_s for n in COPIES]
    assert latencies[0] > latencies[1] > latencies[2]
    # A load that one copy bears and all of them do not.
    rate = 0.85 * N / x.mean
    assert full_fork(x, N, rate).latency_s == math.inf
    assert early_cancel(x, N, rate).latency_s < groups(x, N, 1, rate).latency_s < math.inf
    light = [simulated(keep, x, 0.02 * N / x.mean) for keep in COPIES]
    assert light[0][0] > light[1][0] > light[2][0]
    heavy = [simulated(keep, x, rate) for keep in COPIES]
    assert heavy[0][0] < heavy[1][0] < heavy[2][0]
    for by_keep in (light, heavy):
        assert by_keep[0][1] < by_keep[1][1] < by_keep[2][1]


def test_exponential_times_are_on_the_border() -> None:
    """The cost is the same whatever is done, and latency the least with every copy."""
    x = Exponential(1.0)
    assert [r * x.min_mean(r) for r in range(1, 9)] == pytest.approx([1.0] * 8)
    for rate in (0.4, 2.0, 3.8):
        latencies = [groups(x, N, r, rate).latency_s for r in COPIES]
        assert latencies[0] > latencies[1] > latencies[2]
        assert early_cancel(x, N, rate).latency_s > latencies[2]
    for keep in COPIES:
        assert simulated(keep, x, 3.0)[1] == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize(("x", "cheapest"), NEITHER, ids=repr)
def test_the_others_have_to_be_computed(x: Family, cheapest: int) -> None:
    assert x.log_tail == "neither"
    costs = [r * x.min_mean(r) for r in range(1, 9)]
    assert costs.index(min(costs)) + 1 == cheapest
    # However cheap two are, many copies always cost more in the end: each takes the least time at least.
    assert costs == costs[: cheapest - 1] + sorted(costs[cheapest - 1 :])


def test_a_pareto_shape_of_three_halves_is_indifferent_between_one_and_two() -> None:
    x = Pareto(1.0, 1.5)
    assert x.min_mean(1) == pytest.approx(2 * x.min_mean(2))
    assert 3 * x.min_mean(3) > 2 * x.min_mean(2)


def test_two_modes_are_neither_and_a_late_copy_is_what_they_want() -> None:
    """Copies at once cost 41 % more, yet at low load they are fast; under load one queue wins."""
    x = Bimodal(1.0, 10.0, 0.05)
    light, heavy = ([simulated(keep, x, rate)[0] for keep in COPIES] for rate in (0.3, 1.9))
    assert light[0] > light[1]
    assert light[0] > light[2]
    assert heavy[0] < heavy[1] < heavy[2]
