from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parm_ray.workload import bursts, constant, poisson


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_constant_counts_and_spacing() -> None:
    assert constant(4, n=3).tolist() == [0.0, 0.25, 0.5]
    assert len(constant(10, duration=0.1)) == 1
    assert len(constant(3, duration=1.0)) == 3
    assert len(constant(10, duration=0.05)) == 1
    assert len(constant(10, n=0)) == 0


def test_poisson_has_the_rate_and_the_spread_of_exponential_gaps() -> None:
    gaps = np.diff(poisson(50, rng(), n=20_000))
    assert gaps.mean() == pytest.approx(1 / 50, rel=0.03)
    assert gaps.std() == pytest.approx(1 / 50, rel=0.03)


def test_poisson_over_a_duration_has_poisson_counts() -> None:
    counts = [len(poisson(20, rng(seed), duration=5)) for seed in range(300)]
    assert np.mean(counts) == pytest.approx(100, rel=0.03)
    assert np.var(counts) == pytest.approx(100, rel=0.3)


def test_bursts_keep_the_overall_rate() -> None:
    times = bursts(50, 10, rng(), n=20_000)
    assert len(times) / times[-1] == pytest.approx(50, rel=0.1)
    assert len(np.unique(times)) == 2_000


def test_burst_spacing_separates_the_queries_of_a_burst() -> None:
    times = bursts(0.001, 4, rng(), spacing=0.5, n=4)
    assert np.diff(times) == pytest.approx([0.5] * 3)


@given(seed=st.integers(0, 99), rate=st.floats(0.1, 1e3), duration=st.floats(0, 3), size=st.integers(1, 7))
def test_times_are_sorted_inside_the_run_and_repeatable(
    seed: int, rate: float, duration: float, size: int
) -> None:
    for draw in (
        lambda: poisson(rate, rng(seed), duration=duration),
        lambda: bursts(rate, size, rng(seed), spacing=0.01, duration=duration),
        lambda: constant(rate, duration=duration),
    ):
        times = draw()
        assert np.all(np.diff(times) >= 0)
        assert np.all((times >= 0) & (times < duration))
        assert np.array_equal(times, draw())


@given(n=st.integers(0, 50), size=st.integers(1, 7))
def test_n_is_exact(n: int, size: int) -> None:
    assert len(poisson(5, rng(), n=n)) == n
    assert len(bursts(5, size, rng(), n=n)) == n


@pytest.mark.parametrize(
    ("rate", "kwargs", "field"),
    [
        (0, {"n": 1}, "rate"),
        (float("nan"), {"n": 1}, "rate"),
        (float("inf"), {"n": 1}, "rate"),
        (1, {}, "exactly one"),
        (1, {"n": 1, "duration": 1.0}, "exactly one"),
        (1, {"n": -1}, "n:"),
        (1, {"duration": -1.0}, "duration"),
    ],
)
def test_refuses_bad_arguments(rate: float, kwargs: dict, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        poisson(rate, rng(), **kwargs)
    with pytest.raises(ValueError, match=field):
        constant(rate, **kwargs)


def test_refuses_bad_bursts() -> None:
    with pytest.raises(ValueError, match="size"):
        bursts(1, 0, rng(), n=1)
    with pytest.raises(ValueError, match="spacing"):
        bursts(1, 1, rng(), spacing=-1, n=1)
