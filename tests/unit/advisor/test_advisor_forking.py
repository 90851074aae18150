"""Copies at several servers: tables of closed forms, limits that are known, what is unstable."""

from __future__ import annotations

import math

import pytest

from parm_ray.advisor import Losers, early_cancel, fork_join_cost, fork_join_latency, full_fork, groups
from parm_ray.advisor import coded_pieces as coded
from parm_ray.advisor import copied_pieces as copied
from parm_ray.advisor import random_fork as random
from parm_ray.stats.families import (
    Bimodal,
    Exponential,
    Hyperexponential,
    Pareto,
    ShiftedExponential,
    Uniform,
    Weibull,
)

EXP = Exponential(1.0)
SHIFTED = ShiftedExponential(1.0, 2.0)
HALF = ShiftedExponential(0.5, 2.0)


def test_all_servers_move_in_step() -> None:
    """M/G/1 with the least of n: 1/3 + 1.5 x 2/9 / (2 x 1/2) and 1.25 + .4 x 1.625 / (2 x 1/2)."""
    three = full_fork(EXP, 3, 1.5)
    assert (three.latency_s, three.cost_s, three.max_rate) == pytest.approx((0.666667, 1, 3), abs=1e-6)
    two = full_fork(SHIFTED, 2, 0.4)
    assert (two.latency_s, two.cost_s, two.max_rate) == pytest.approx((1.9, 2.5, 0.8), abs=1e-6)
    assert two.latency_is == two.cost_is == "exact"


def test_groups() -> None:
    found = groups(SHIFTED, 6, 2, 1.5)
    assert (found.latency_s, found.cost_s, found.max_rate) == pytest.approx((2.333333, 2.5, 2.4), abs=1e-6)


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (0.2, (1.033, 0.784, 0.671)),
        (0.8, (1.156, 0.929, 0.950)),
        (1.4, (1.337, 1.211, 2.900)),
        (2.2, (1.764, 2.714, math.inf)),
    ],
)
def test_how_many_copies_are_best_depends_on_the_load(rate: float, expected: tuple[float, ...]) -> None:
    found = [groups(HALF, 4, r, rate).latency_s for r in (1, 2, 4)]
    assert found == pytest.approx(expected, abs=6e-4)


def test_early_cancel_is_one_queue() -> None:
    """M/M/4 at rate 2.8: 1 + C(4, 2.8) / 1.2 with Erlang's C."""
    found = early_cancel(EXP, 4, 2.8)
    assert (found.latency_s, found.cost_s, found.max_rate) == pytest.approx((1.357212, 1, 4), abs=1e-6)
    assert found.latency_is == "exact"
    assert early_cancel(SHIFTED, 4, 1.0).latency_is == "approximation"
    # One server is M/G/1, whose wait the approximation has exactly.
    assert early_cancel(SHIFTED, 1, 0.5).latency_s == pytest.approx(groups(SHIFTED, 1, 1, 0.5).latency_s)


def test_random_servers() -> None:
    found = random(EXP, 3, 2, 2.1)
    assert (found.latency_s, found.cost_s) == pytest.approx((1.367521, 1), abs=1e-6)
    # d = n is full fork, d = 1 is n queues.
    assert random(EXP, 5, 5, 3.0).latency_s == pytest.approx(full_fork(EXP, 5, 3.0).latency_s)
    assert random(EXP, 5, 1, 3.0).latency_s == pytest.approx(groups(EXP, 5, 1, 3.0).latency_s)
    table = [random(EXP, 10, d, 7.0).latency_s for d in (1, 2, 3, 5)]
    assert table == pytest.approx([3.33, 1.10, 0.727, 0.477], abs=6e-3)
    # Many servers: (-ln(1 - rho) - rho) / rho^2 for two copies.
    limit = (-math.log(0.3) - 0.7) / 0.49
    assert random(EXP, 4000, 2, 2800.0).latency_s == pytest.approx(limit, rel=1e-3)


def test_copying_everything_helps_below_a_third_of_the_capacity() -> None:
    """Vulimiri et al. (CoNEXT 2013), exponential times: two copies are as good as one at rho = 1/3."""
    for rho in (0.2, 0.333, 0.334, 0.45):
        one, both = (groups(EXP, 2, r, 2 * rho, Losers(None)).latency_s for r in (1, 2))
        # Copies that are never cancelled double the load; of two independent exponential times the first
        # takes half.
        assert (both / 2 < one) is (rho < 1 / 3)


def test_what_is_unstable_takes_for_ever() -> None:
    for rate in (0.8, 1.0):
        assert full_fork(SHIFTED, 2, rate).latency_s == math.inf
    assert early_cancel(EXP, 4, 4.0).latency_s == math.inf
    assert random(EXP, 3, 2, 3.0).latency_s == math.inf
    assert groups(Pareto(1.0, 0.8), 2, 1, 0.1).latency_s == math.inf
    assert (
        early_cancel(Pareto(1.0, 0.8), 2, 0.1).latency_s,
        full_fork(Pareto(1.0, 0.8), 2, 0.1).max_rate,
    ) == (
        math.inf,
        pytest.approx(2 / (2 * 1.6 / 0.6)),
    )
    # Two of three exponential tasks cost 2 in the mean, whatever the load: 3 / 2 jobs per second at most.
    assert fork_join_latency(EXP, 3, 2, 1.499).low < math.inf
    assert fork_join_latency(EXP, 3, 2, 1.501).low == math.inf
    assert fork_join_latency(EXP, 3, 3, 1.001).low == math.inf


def test_cancelling_may_cost() -> None:
    """Each loser takes c more: E[C] = r m1 + (r - 1) c, and the group is held up to c longer."""
    found = groups(EXP, 4, 2, 0.4, Losers(0.1))
    assert found.cost_s == pytest.approx(1.1)
    # m1 + c = .6, E[(X + c)^2] = .5 + .1 + .01, 0.2 jobs/s per group.
    assert found.latency_s == pytest.approx(0.5 + 0.2 * 0.61 / (2 * (1 - 0.12)))
    assert (found.latency_is, found.cost_is) == ("upper bound", "at zero load")
    runs_on = groups(HALF, 4, 2, 0.4, Losers(None))
    assert (runs_on.cost_s, runs_on.max_rate) == pytest.approx((2.0, 2.0))
    assert groups(EXP, 4, 1, 0.4, Losers(0.1)).latency_is == "exact"


def test_bounds_where_two_of_three_are_needed() -> None:
    assert fork_join_latency(EXP, 3, 2, 0.6).low == pytest.approx(1.131, abs=6e-4)
    assert fork_join_latency(EXP, 3, 2, 0.6).high == pytest.approx(1.467, abs=6e-4)
    assert fork_join_latency(EXP, 3, 2, 1.1).low == pytest.approx(1.637, abs=6e-4)
    assert fork_join_latency(EXP, 3, 2, 1.1).high == pytest.approx(7.80, abs=6e-3)
    one = fork_join_latency(HALF, 3, 1, 0.5)
    assert one.low == pytest.approx(one.high)
    assert one.low == pytest.approx(full_fork(HALF, 3, 0.5).latency_s)


def test_the_cost_moves_with_the_load_as_the_tail_bends() -> None:
    """Uniform(0, 1), (3, 2): 1/4 + 1/2 + 1/2 = 1.25 at zero load, not below 2 x 1/2."""
    uniform = fork_join_cost(Uniform(0.0, 1.0), 3, 2)
    assert uniform.at_zero_load == pytest.approx(1.25)
    assert uniform.bounds is not None
    assert (uniform.bounds.low, uniform.bounds.high) == pytest.approx((1.0, 1.25))
    mixed = fork_join_cost(Hyperexponential(0.9, (1.0, 0.1)), 3, 2)
    assert mixed.bounds is not None
    assert mixed.at_zero_load == mixed.bounds.low < mixed.bounds.high == pytest.approx(3.8)
    assert fork_join_cost(EXP, 5, 3).at_zero_load == pytest.approx(3.0)
    assert fork_join_cost(Bimodal(1, 10, 0.05), 3, 2).bounds is None
    assert [
        fork_join_cost(x, 3, 2).with_load for x in (Uniform(0, 1), Weibull(0.7, 1), EXP, Pareto(1, 3))
    ] == [
        "falls",
        "rises",
        "constant",
        "unknown",
    ]
    for k in (1, 4):
        assert fork_join_cost(Pareto(1.0, 2.5), 4, k).with_load == "constant"
    assert fork_join_cost(Pareto(1.0, 2.5), 4, 4).at_zero_load == pytest.approx(4 * 5 / 3)


def test_coded_pieces_against_copied_ones() -> None:
    assert coded(EXP, 4, 2).latency_s == pytest.approx(0.583333, abs=1e-6)
    assert copied(EXP, 2, 2).latency_s == pytest.approx(0.75, abs=1e-6)
    assert coded(EXP, 6, 3).latency_s == pytest.approx(0.616667, abs=1e-6)
    assert copied(EXP, 3, 2).latency_s == pytest.approx(0.916667, abs=1e-6)
    assert copied(HALF, 1, 2).cost_s == pytest.approx(full_fork(HALF, 2, 0.0).cost_s)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: groups(EXP, 6, 4, 0.1), "copies: expected a divisor of 6"),
        (lambda: groups(EXP, 6, 7, 0.1), r"copies: expected 1\.\.6"),
        (lambda: full_fork(EXP, 0, 0.1), "servers: expected >= 1"),
        (lambda: early_cancel(EXP, 2, -0.1), "rate: .* >= 0"),
        (lambda: random(HALF, 2, 2, 0.1), "x: expected an exponential"),
        (lambda: fork_join_latency(EXP, 2, 3, 0.1), r"k: expected 1\.\.2"),
        (lambda: Losers(-1.0), "cancel_s: .* >= 0"),
    ],
)
def test_what_is_out_of_range_is_named(call: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
