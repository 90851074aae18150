"""Predictions that are bounds, approximations or of samples, against simulated jobs and known laws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from parm_ray.advisor import (
    Losers,
    early_cancel,
    fork_join_latency,
    full_fork,
    groups,
    hedge,
    prediction_intervals,
)
from parm_ray.sim.forks import Forking, ForkRuns, simulate_forks
from parm_ray.stats.copies import Service, SizeSlowdown
from parm_ray.stats.families import (
    Bimodal,
    Exponential,
    Family,
    Hyperexponential,
    LogNormal,
    Pareto,
    ShiftedExponential,
    Uniform,
)

EXP = Exponential(1.0)
HALF = ShiftedExponential(0.5, 2.0)
HYPER = Hyperexponential(0.9, (1.0, 0.1))


def run(strategy: Forking, x: Service, rate: float, jobs: int = 500) -> ForkRuns:
    return simulate_forks(strategy, x, rate, np.random.default_rng(11), jobs=jobs, runs=512)


@pytest.mark.parametrize("x", [EXP, HALF, HYPER, Bimodal(1.0, 10.0, 0.05)], ids=repr)
@pytest.mark.parametrize("losers", [Losers(0.3), Losers(None)], ids=["held", "run-on"])
def test_latency_stays_below_its_bound_when_losers_hold_servers(x: Family, losers: Losers) -> None:
    """Groups of two of four servers; at next to no load the cost is the one given."""
    cancel = {"cancel": "waiting"} if losers.cancel_s is None else {"cancel_s": losers.cancel_s}
    strategy = Forking(4, 2, 2, choice="groups", **cancel)
    for load in (0.01, 0.3, 0.6):
        rate = load * 2 / (x.mean if losers.cancel_s is None else x.min_mean(2) + 0.3)
        found, said = run(strategy, x, rate), groups(x, 4, 2, rate, losers)
        assert said.latency_is == "upper bound"
        mean, interval = found.mean(found.latency_s, level=0.999)
        assert interval.low < said.latency_s < math.inf
        if load == 0.01:
            assert mean == pytest.approx(x.min_mean(2), rel=0.05)
            if losers.cancel_s is None or not x.steps:
                assert found.cost_s.mean() == pytest.approx(said.cost_s, rel=0.02)
            else:
                # Copies that end in the same moment need no cancelling: 0.95^2 and 0.05^2 of all.
                assert found.cost_s.mean() == pytest.approx(said.cost_s - 0.3 * 0.905, rel=0.02)


def test_cancelling_that_costs_is_paid_less_often_under_load() -> None:
    """Exponential times, c = 0.3: copies that start apart are often cancelled while they wait."""
    strategy = Forking(4, 2, 2, choice="groups", cancel_s=0.3)
    costs = [run(strategy, EXP, rate).cost_s.mean() for rate in (0.01, 2.4)]
    assert costs[0] == pytest.approx(groups(EXP, 4, 2, 0.01, Losers(0.3)).cost_s, rel=0.01)
    assert 0.9 * costs[0] < costs[1] < 0.97 * costs[0]


@pytest.mark.parametrize("x", [EXP, HALF, HYPER, Uniform(0.0, 2.0)], ids=repr)
def test_two_of_three_lie_between_their_bounds(x: Family) -> None:
    rate = 0.5 / x.order_mean(2, 3)
    bounds = fork_join_latency(x, 3, 2, rate)
    _, interval = (found := run(Forking(3, 3, 3, need=2), x, rate)).mean(found.latency_s, level=0.999)
    assert bounds.low < interval.high
    assert interval.low < bounds.high


@pytest.mark.parametrize(
    ("x", "off"), [(EXP, 0.02), (HALF, 0.03), (Uniform(0.0, 2.0), 0.03), (HYPER, 0.08)], ids=repr
)
def test_the_approximation_of_one_queue_is_this_far_off(x: Family, off: float) -> None:
    """Four servers, 70 % busy."""
    rate = 2.8 / x.mean
    found, said = run(Forking(4, 4, 1), x, rate, jobs=2000), early_cancel(x, 4, rate)
    assert said.latency_s == pytest.approx(found.latency_s.mean(), rel=off)


def test_copies_that_share_their_size() -> None:
    """The closed forms take the least of r slowdowns, and that is what copies do."""
    x = SizeSlowdown(LogNormal(0.0, 0.5), Bimodal(1.0, 10.0, 0.05))
    found, said = run(Forking(4, 2, 2, choice="groups"), x, 0.8), groups(x, 4, 2, 0.8)
    _, interval = found.mean(found.latency_s, level=0.999)
    assert interval.low * 0.995 < said.latency_s < interval.high * 1.005
    assert found.cost_s.mean() == pytest.approx(said.cost_s, rel=0.01)


@pytest.mark.parametrize(
    ("predict", "x", "copies"),
    [
        (lambda x: full_fork(x, 4, 0.8), HALF, 4),
        (lambda x: groups(x, 4, 1, 0.4), HALF, 1),
        (lambda x: hedge(x, 1, 1.2), HYPER, 1),
    ],
)
def test_intervals_hold_what_the_law_gives(predict: object, x: Family, copies: int) -> None:
    """Samples of 250: the true latency and cost are in 95 % intervals nearly always."""
    rng, true, held = np.random.default_rng(12), predict(x), 0
    for _ in range(12):
        found = prediction_intervals(x.sample(rng, 250), predict, rng, copies=copies, power=2, resamples=100)
        held += found.latency_s.low <= true.latency_s <= found.latency_s.high
        held += found.cost_s.low <= true.cost_s <= found.cost_s.high
        assert found.latency_s.low <= found.prediction.latency_s <= found.latency_s.high
    assert held >= 19


def test_a_setting_that_may_be_unstable_shows_it() -> None:
    rng = np.random.default_rng(13)
    found = prediction_intervals(EXP.sample(rng, 300), lambda x: groups(x, 1, 1, 0.98), rng)
    assert found.latency_s.high == math.inf
    with pytest.raises(ValueError, match="at least 200 service times"):
        prediction_intervals(EXP.sample(rng, 100), lambda x: hedge(x, 1, 1.0), rng)
    with pytest.raises(ValueError, match="no moment of order 4"):
        prediction_intervals(Pareto(1.0, 1.5).sample(rng, 5000), lambda x: groups(x, 1, 1, 0.1), rng)
