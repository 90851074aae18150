"""Order statistics of a sample against all of its subsets; the test for a rising or falling hazard rate."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from parm_ray.stats.families import (
    Bimodal,
    Exponential,
    Family,
    Hyperexponential,
    Pareto,
    ShiftedExponential,
    Weibull,
)
from parm_ray.stats.order import cost_of_copies, gini, order_mean, time_on_test

SMALL = [1.0, 2.0, 3.0, 6.0]


@pytest.mark.parametrize(
    ("sample", "costs", "g"),
    [
        (SMALL, (3, 10 / 3, 3.75, 4), 4 / 9),
        ([1.0, 1.0, 1.0, 9.0], (3, 2, 3, 4), 2 / 3),
        ([0.1, 0.2, 0.3, 9.4], (2.5, 1 / 3, 0.375, 0.4), 0.9333333),
    ],
)
def test_costs_by_hand(sample: list[float], costs: tuple[float, ...], g: float) -> None:
    assert [cost_of_copies(sample, r) for r in (1, 2, 3, 4)] == pytest.approx(list(costs))
    assert gini(sample) == pytest.approx(g, abs=1e-6)
    assert time_on_test(sample).v == pytest.approx(1 - g, abs=1e-6)


def test_order_statistics_are_means_over_subsets() -> None:
    assert order_mean(SMALL, 2, 3) == pytest.approx(2.5)
    x = np.random.default_rng(1).exponential(1.0, 9)
    for r in (1, 2, 4, 9):
        for k in range(1, r + 1):
            for moment in (1, 2):
                subsets = [sorted(s)[k - 1] ** moment for s in combinations(x, r)]
                assert order_mean(x, k, r, moment) == pytest.approx(np.mean(subsets))


def test_large_samples_keep_their_digits() -> None:
    """100,000 equal values, and the mean of a million: binomials of these have thousands of digits."""
    assert order_mean(np.full(100_000, 2.0), 300, 700) == pytest.approx(2.0, rel=1e-12)
    x = np.random.default_rng(2).exponential(1.0, 1_000_000)
    assert order_mean(x, 1, 1) == pytest.approx(x.mean(), rel=1e-9)
    assert order_mean(x, 1, 50) == pytest.approx(0.02, rel=0.02)
    assert order_mean(x, 2, 3) == pytest.approx(Exponential(1.0).order_mean(2, 3), rel=0.01)


def test_they_are_unbiased() -> None:
    """Small samples of a skewed time: the mean over many samples, within four standard errors."""
    rng, x = np.random.default_rng(3), Weibull(0.7, 1.0)
    found = np.array([order_mean(x.sample(rng, 12), 1, 3) for _ in range(4000)])
    assert found.mean() == pytest.approx(x.min_mean(3), abs=4 * found.std() / np.sqrt(len(found)))


def test_the_statistic_by_hand() -> None:
    """{1,2,3,6}: D = 4, 3, 2, 3 of 12; U = 1/3, 7/12, 3/4; V = 5/9."""
    found = time_on_test(SMALL)
    assert (found.v, found.z) == pytest.approx((5 / 9, 1 / 3))


def rejections(x: Family, n: int, times: int = 400) -> tuple[float, float]:
    rng = np.random.default_rng(4)
    z = np.array([time_on_test(x.sample(rng, n)).z for _ in range(times)])
    return float((z > 1.96).mean()), float((z < -1.96).mean())


@pytest.mark.parametrize(
    ("x", "rising", "falling"),
    [
        (ShiftedExponential(0.5, 2.0), 0.99, None),
        (Weibull(1.4, 1.0), 0.94, None),
        (Weibull(0.7, 1.0), None, 0.95),
        (Hyperexponential(0.9, (1.0, 0.1)), None, 0.91),
        # The whole of these is on the rising side, whatever their tails are.
        (Pareto(1.0, 2.5), 0.9, None),
        (Bimodal(1.0, 10.0, 0.05), 0.9, None),
    ],
)
def test_power_at_a_hundred_values(x: Family, rising: float | None, falling: float | None) -> None:
    found = rejections(x, 100)
    if rising is not None:
        assert found[0] > rising
        assert found[1] < 0.01
    if falling is not None:
        assert found[1] > falling
        assert found[0] < 0.01


def test_false_alarms_are_one_in_twenty() -> None:
    """4000 samples: 0.05 with a standard error of 0.0034."""
    high, low = rejections(Exponential(3.0), 100, times=4000)
    assert high + low == pytest.approx(0.05, abs=0.012)
    assert high == pytest.approx(low, abs=0.012)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: order_mean(SMALL, 1, 5), r"r: expected 1\.\.4 \(the sample"),
        (lambda: order_mean(SMALL, 3, 2), r"k: expected 1\.\.r \(2\)"),
        (lambda: order_mean([], 1, 1), "sample: expected at least 1"),
        (lambda: gini([1.0]), "sample: expected at least 2"),
        (lambda: time_on_test([0.0, 0.0]), "above 0"),
        (lambda: gini([1.0, float("nan")]), "finite"),
        (lambda: gini([1.0, -1.0]), ">= 0"),
    ],
)
def test_what_a_sample_cannot_say_is_named(call: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
