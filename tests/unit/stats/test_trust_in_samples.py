"""What a sample is refused for, how often rightly, and what its intervals cover."""

from __future__ import annotations

import numpy as np
import pytest

from parm_ray.stats.censored import kaplan_meier
from parm_ray.stats.families import (
    Bimodal,
    Exponential,
    Family,
    Hyperexponential,
    LogNormal,
    Pareto,
    ShiftedExponential,
    Weibull,
)
from parm_ray.stats.trust import copies_intervals, require_moment, require_quantile, require_size, tail_index


def test_how_many_are_missing_is_said() -> None:
    with pytest.raises(ValueError, match="at least 200 service times, got 150: measure 50 more"):
        require_size(np.ones(150))
    require_size(np.ones(200))


def test_quantiles_beyond_the_sample_are_refused() -> None:
    require_quantile(np.ones(1000), 0.99)
    with pytest.raises(ValueError, match="needs 10000 service times, got 9999"):
        require_quantile(np.ones(9999), 0.999)
    with pytest.raises(ValueError, match="q: expected between 0 and 1"):
        require_quantile(np.ones(9999), 1.0)


def refused(x: Family, r: int, power: float, n: int = 3000, times: int = 30) -> float:
    rng, count = np.random.default_rng(1), 0
    for _ in range(times):
        try:
            require_moment(x.sample(rng, n), r, power)
        except ValueError:
            count += 1
    return count / times


@pytest.mark.parametrize(
    ("x", "r", "power", "low", "high"),
    [
        # Pareto 1.2 has a mean and no variance; two of them have moments below 2.4, four below 4.8.
        (Pareto(1.0, 1.2), 1, 2, 0.85, 1.0),
        (Pareto(1.0, 1.2), 2, 4, 0.85, 1.0),
        (Pareto(1.0, 1.2), 4, 2, 0.0, 0.0),
        (Pareto(1.0, 0.6), 1, 1, 0.9, 1.0),
        (Exponential(1.0), 1, 4, 0.0, 0.1),
        (ShiftedExponential(0.5, 2.0), 1, 4, 0.0, 0.1),
        # Where the slow mode begins the tail looks heavier than it is: a few are refused for nothing.
        (Hyperexponential(0.9, (1.0, 0.1)), 1, 2, 0.0, 0.25),
        (Weibull(0.7, 1.0), 1, 2, 0.0, 0.05),
        (LogNormal(0.0, 0.5), 1, 2, 0.0, 0.05),
        (Bimodal(1.0, 10.0, 0.05), 1, 4, 0.0, 0.0),
    ],
)
def test_moments_that_do_not_exist_are_refused(
    x: Family, r: int, power: float, low: float, high: float
) -> None:
    assert low <= refused(x, r, power) <= high


def test_slow_calls_far_from_the_others_are_no_heavy_tail() -> None:
    rng = np.random.default_rng(8)
    fast = 0.05 + rng.exponential(0.005, 10_000)
    slow = np.where(rng.random(10_000) < 0.02, 10.0, 1.0) * fast
    assert tail_index(slow)[0] > 1
    require_moment(slow, 1, 4)


def test_the_tail_index() -> None:
    rng = np.random.default_rng(2)
    for x, expected in ((Pareto(1.0, 2.0), 0.5), (Exponential(1.0), 0.0)):
        found = np.array([tail_index(x.sample(rng, 2000)) for _ in range(20)])
        assert found[:, 0].mean() == pytest.approx(expected, abs=0.08)
        assert found[:, 0].std() == pytest.approx(found[:, 1].mean(), rel=0.6)


def test_intervals_cover_the_truth() -> None:
    """95 % intervals of 2 E[X_{1:2}] from 200 values: at least 85 % of 60 hold the truth, and 3 does not."""
    rng, x = np.random.default_rng(3), Weibull(0.7, 1.0)
    true = 2 * x.min_mean(2)
    held = 0
    for _ in range(60):
        (interval,) = copies_intervals(x.sample(rng, 200), [2], rng, resamples=200)
        held += interval.low <= true <= interval.high
        assert interval.high - interval.low < true
    assert held >= 51


def test_intervals_tell_when_two_copies_are_cheaper() -> None:
    rng = np.random.default_rng(4)
    x = Hyperexponential(0.9, (1.0, 0.1)).sample(rng, 1000)
    one, two, four = copies_intervals(x, [1, 2, 4], rng)
    assert max(two.high, four.high) < one.low
    assert two.low < 1.2373 < two.high
    with pytest.raises(ValueError, match="at least 200"):
        copies_intervals(x[:199], [2], rng)
    with pytest.raises(ValueError, match="has no moment of order 2"):
        copies_intervals(Pareto(1.0, 0.7).sample(rng, 5000), [1], rng)


def test_censored_times_by_hand() -> None:
    """1, 2+, 3, 3+, 5 (+ = cut off): S = 4/5, then x 2/3, then 0."""
    x = kaplan_meier([3, 1, 5, 2, 3], [True, True, True, False, False])
    assert [float(s) for s in x.survival([0.5, 1, 2, 3, 5])] == pytest.approx([1, 0.8, 0.8, 0.8 * 2 / 3, 0])
    assert kaplan_meier([1, 2, 3], [True] * 3).mean == pytest.approx(2.0)


def test_losers_of_independent_copies_are_no_loss() -> None:
    """Two copies, the loser cut off when the winner ends: the law of X comes back."""
    rng, x = np.random.default_rng(5), Weibull(0.7, 1.0)
    first, second = x.sample(rng, (2, 20_000))
    done = np.minimum(first, second)
    times = np.concatenate([done, done])
    ended = np.concatenate([first <= second, second < first])
    found = kaplan_meier(times, ended, close=True)
    for t in (0.1, 0.5, 1.0, 2.0, 4.0):
        assert float(found.survival(t)) == pytest.approx(float(x.survival(t)), abs=0.015)
    assert found.mean == pytest.approx(x.mean, rel=0.06)
    # Taking the winners for all there is would halve the mean.
    assert done.mean() < 0.5 * x.mean


@pytest.mark.parametrize(
    ("times", "observed", "words"),
    [
        ([1.0, 2.0], [True, False], "the longest, 2, was cut off, and 50.0% of the calls take longer"),
        ([1.0, 2.0], [False, False], "at least one call that ended"),
        ([1.0, 2.0], [True], "expected 2 of them"),
        ([1.0, -2.0], [True, True], ">= 0"),
    ],
)
def test_what_censored_times_cannot_say_is_named(
    times: list[float], observed: list[bool], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        kaplan_meier(times, observed)
