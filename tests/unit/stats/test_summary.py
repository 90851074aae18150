from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parm_ray.stats import bootstrap_interval, percentile, summarise

latencies = st.lists(st.floats(0, 1e3), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("n", "q", "expected"),
    [(100, 0.99, 99), (100, 0.5, 50), (1000, 0.999, 999), (101, 0.99, 100), (1, 0.5, 1), (10, 1.0, 10)],
)
def test_nearest_rank(n: int, q: float, expected: int) -> None:
    assert percentile(range(1, n + 1), q) == expected


@given(values=latencies, q=st.floats(0.001, 1))
def test_a_percentile_is_a_value_with_enough_values_at_or_below(values: list[float], q: float) -> None:
    p = percentile(values, q)
    assert p in values
    assert np.mean(np.array(values) <= p) >= q - 1e-9
    assert np.mean(np.array(values) < p) < q


@given(values=latencies, failed=st.integers(0, 60))
def test_failures_never_improve_a_tail(values: list[float], failed: int) -> None:
    with_failures = summarise(values, failed)
    without = summarise(values)
    assert with_failures.n == len(values) + failed
    assert with_failures.mean == without.mean
    for name in ("p50", "p90", "p99", "p99_5", "p99_9"):
        assert getattr(with_failures, name) >= getattr(without, name)


def test_a_percentile_among_the_failed_is_infinite() -> None:
    summary = summarise(np.ones(98), failed=2)
    assert summary.p90 == 1.0
    assert math.isinf(summary.p99)


def test_all_failed() -> None:
    summary = summarise([], failed=3)
    assert math.isnan(summary.mean)
    assert math.isinf(summary.p50)


def test_refuses_what_has_no_answer() -> None:
    with pytest.raises(ValueError, match="at least one"):
        summarise([])
    with pytest.raises(ValueError, match="nan"):
        percentile([1.0, math.nan], 0.5)
    with pytest.raises(ValueError, match="q:"):
        percentile([1.0], 0.0)
    with pytest.raises(ValueError, match="failed"):
        percentile([1.0], 0.5, failed=-1)


def test_bootstrap_covers_the_median_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        sample = rng.exponential(1.0, 80)
        low, high = bootstrap_interval(sample, lambda v: percentile(v, 0.5), rng, resamples=200)
        hits += low <= math.log(2) <= high
    assert 0.88 <= hits / 200 <= 0.99


def test_blocks_widen_the_interval_of_dependent_values() -> None:
    rng = np.random.default_rng(2)
    dependent = np.repeat(rng.exponential(1.0, 60), 20)

    def width(block: int) -> float:
        low, high = bootstrap_interval(
            dependent, lambda v: float(v.mean()), np.random.default_rng(0), block=block
        )
        return high - low

    assert width(20) > 2.5 * width(1)


def test_bootstrap_is_repeatable_and_constant_samples_have_no_width() -> None:
    def run() -> tuple[float, float]:
        return bootstrap_interval([1.0, 2.0, 5.0], np.mean, np.random.default_rng(3), resamples=50)

    assert run() == run()
    assert bootstrap_interval([2.0] * 9, np.max, np.random.default_rng(0), resamples=10) == (2.0, 2.0)


@pytest.mark.parametrize("kwargs", [{"level": 1.0}, {"resamples": 0}, {"block": 0}, {"block": 4}])
def test_bootstrap_refuses_bad_arguments(kwargs: dict) -> None:
    with pytest.raises(ValueError, match="expected"):
        bootstrap_interval([1.0, 2.0, 3.0], np.mean, np.random.default_rng(0), **kwargs)
