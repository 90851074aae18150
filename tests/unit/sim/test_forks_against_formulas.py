"""The fork simulator against closed forms and the tables of section 3 of Joshi, Soljanin and Wornell's model.

Tolerances are the runs' own intervals at 99.9 %, and a share for the start from an empty system.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from parm_ray.sim.forks import Forking, ForkRuns, simulate_forks
from parm_ray.stats.families import (
    Bimodal,
    Empirical,
    Exponential,
    Family,
    Hyperexponential,
    ShiftedExponential,
    Uniform,
)

EXP = Exponential(1.0)
SHIFTED = ShiftedExponential(1.0, 2.0)
HALF = ShiftedExponential(0.5, 2.0)
HYPER = Hyperexponential(0.9, (1.0, 0.1))


def run(strategy: Forking, x: Family, rate: float, jobs: int = 500, runs: int = 512) -> ForkRuns:
    return simulate_forks(strategy, x, rate, np.random.default_rng(7), jobs=jobs, runs=runs)


def agree(found: ForkRuns, latency_s: float | None, cost_s: float | None, slack: float = 0.003) -> None:
    for values, expected in ((found.latency_s, latency_s), (found.cost_s, cost_s)):
        if expected is not None:
            mean, interval = found.mean(values, level=0.999)
            low, high = interval.low - slack * mean, interval.high + slack * mean
            assert low < expected < high, (mean, interval, expected)
            assert high - low < 0.2 * mean


@pytest.mark.parametrize(
    ("strategy", "x", "rate", "latency_s", "cost_s"),
    [
        (Forking(3, 3, 3), EXP, 1.5, 2 / 3, 1.0),
        (Forking(2, 2, 2), SHIFTED, 0.4, 1.9, 2.5),
        (Forking(6, 2, 2, choice="groups"), SHIFTED, 1.5, 2.333333, 2.5),
        (Forking(4, 4, 1), EXP, 2.8, 1.357212, 1.0),
        (Forking(3, 2, 2), EXP, 2.1, 1.367521, 1.0),
        (Forking(2, 1, 1), EXP, 1.0, 2.0, 1.0),
        (Forking(3, 3, 3, need=2), EXP, 0.6, 1.247, 2.0),
    ],
    ids=["full", "full-shifted", "groups", "early-cancel", "random", "none", "two-of-three"],
)  # fmt: skip
def test_closed_forms(strategy: Forking, x: Family, rate: float, latency_s: float, cost_s: float) -> None:
    agree(run(strategy, x, rate), latency_s, cost_s)


@pytest.mark.parametrize(
    ("rate", "keep", "latency_s", "cost_s", "early", "full"),
    [
        (0.2, 4, 0.671, 2.50, 1.00, 0.671),
        (0.8, 2, 0.795, 1.50, 1.00, 0.951),
        (1.4, 2, 0.915, 1.50, 1.02, 2.87),
        (2.2, 1, 1.083, 1.00, 1.083, None),
    ],
)
def test_the_table_of_four_servers(
    rate: float, keep: int, latency_s: float, cost_s: float, early: float, full: float | None
) -> None:
    """Fork to all four, keep the first r to start: X = 0.5 + Exp(2)."""
    agree(run(Forking(4, 4, keep), HALF, rate), latency_s, cost_s)
    agree(run(Forking(4, 4, 1), HALF, rate), early, 1.0, slack=0.006)
    if full is not None:
        agree(run(Forking(4, 4, 4), HALF, rate, jobs=1500), full, 2.5, slack=0.02)


def test_two_modes_want_fewer_copies_as_the_load_grows() -> None:
    """Bimodal 1 / 10 (5 %) on four servers, from the table: (4,3) at 0.3 and 1.0, early cancelling at 1.9."""
    x = Bimodal(1.0, 10.0, 0.05)
    agree(run(Forking(4, 4, 3), x, 0.3), 1.022, None, slack=0.004)
    agree(run(Forking(4, 4, 2), x, 0.3), 1.038, None, slack=0.004)
    agree(run(Forking(4, 4, 3), x, 1.0), 1.214, None, slack=0.01)
    agree(run(Forking(4, 2, 2), x, 1.6), 1.552, None, slack=0.01)
    agree(run(Forking(4, 4, 1), x, 1.9), 2.044, None, slack=0.01)


def test_mixed_exponentials_want_every_copy_at_every_load() -> None:
    agree(run(Forking(4, 4, 4), HYPER, 1.8), 0.596, None, slack=0.01)
    # 0.855 busy, with long jobs: the queue takes long to fill.
    agree(run(Forking(4, 4, 1), HYPER, 1.8, jobs=4000), 8.18, 1.9, slack=0.04)


def test_the_cost_moves_between_its_bounds() -> None:
    """Two of three tasks: with a log-concave tail E[C] falls with the load, with a log-convex it rises."""
    costs = [run(Forking(3, 3, 3, need=2), Uniform(0, 1), rate).cost_s.mean() for rate in (0.01, 1.5, 2.6)]
    assert 1.25 + 0.005 > costs[0] > costs[1] > costs[2] > 1.0
    costs = [run(Forking(3, 3, 3, need=2), HYPER, rate).cost_s.mean() for rate in (0.01, 0.5, 0.75)]
    assert costs[0] < costs[1] < costs[2] < 3.8


@pytest.mark.parametrize(
    ("strategy", "sample", "latency_s", "cost_s"),
    [
        (Forking(4, 1, 1, hedge_s=1.0), Bimodal(1.0, 10.0, 0.05), 1.07, 1.14),
        (Forking(4, 1, 1, hedge_s=1.0, hedge_from="arrival"), HYPER, 0.9624, 1.2608),
        (Forking(4, 4, 1, hedge_s=1.0, cancel="waiting"), EXP, 0.8161, 1 + math.exp(-1)),
        (Forking(4, 1, 1, hedge_s=1.5, cancel_s=0.2), HALF, 0.9876, 1.0428 + 0.2 * math.exp(-2)),
    ],
)
def test_hedges_of_idle_servers(strategy: Forking, sample: Family, latency_s: float, cost_s: float) -> None:
    agree(run(strategy, sample, 0.002, jobs=1500, runs=20), latency_s, cost_s, slack=0.005)


def test_hedges_counted_from_arrival_feed_on_the_queue() -> None:
    """12 servers, one queue, x10 for 2 % of the calls, 65 % busy; a hedge at 1.6, nothing cancelled.

    Counted from the start of service a hedge is rare whatever the queue; counted from arrival, every job that
    waits is sent twice and makes others wait. 48 % busy, with losers cancelled, it is harmless.
    """
    rng = np.random.default_rng(8)
    slow = np.where(rng.random(20_000) < 0.02, 10.0, 1.0)
    x = Empirical(slow * (1 + rng.exponential(0.1, 20_000)))
    calm = run(Forking(12, 12, 1, hedge_s=1.6, hedge_from="arrival"), x, 4.8, jobs=5000, runs=4)
    assert calm.latency_s.mean() == pytest.approx(1.14, abs=0.02)
    assert np.quantile(calm.latency_s, 0.99) == pytest.approx(2.67, abs=0.05)
    assert calm.hedged < 0.05
    wild = run(Forking(12, 12, 1, hedge_s=1.6, hedge_from="arrival", cancel="none"), x, 6.0, 5000, 4)
    assert wild.hedged > 0.5
    assert wild.latency_s.mean() > 10
    from_start = run(Forking(12, 12, 1, hedge_s=1.6, cancel="none"), x, 6.0, 5000, 4)
    assert from_start.hedged < 0.05
    assert from_start.latency_s.mean() < 1.3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "x", "rate", "latency_s"),
    [
        (Forking(3, 3, 3), EXP, 1.5, 2 / 3),
        (Forking(2, 2, 2), SHIFTED, 0.4, 1.9),
        (Forking(6, 2, 2, choice="groups"), SHIFTED, 1.5, 2.333333),
        (Forking(4, 4, 1), EXP, 2.8, 1.357212),
        (Forking(3, 2, 2), EXP, 2.1, 1.367521),
    ],
)
def test_closed_forms_to_half_a_percent(strategy: Forking, x: Family, rate: float, latency_s: float) -> None:
    found = run(strategy, x, rate, jobs=20_000, runs=256)
    mean, interval = found.mean(found.latency_s, level=0.999)
    assert interval.low < latency_s < interval.high
    assert mean == pytest.approx(latency_s, rel=5e-3)
