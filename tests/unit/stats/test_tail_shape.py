"""The shape of a sample's tail: named rightly, with few false alarms, whatever it is made of."""

from __future__ import annotations

import numpy as np
import pytest

from parm_ray.stats.families import (
    Bimodal,
    Exponential,
    Family,
    Gamma,
    Hyperexponential,
    LogNormal,
    LogTail,
    Pareto,
    ShiftedExponential,
    Uniform,
    Weibull,
)
from parm_ray.stats.tail_shape import tail_shape


def verdicts(x: Family, n: int = 500, times: int = 20) -> list[LogTail]:
    rng = np.random.default_rng(1)
    return [tail_shape(x.sample(rng, n), rng, resamples=99).verdict for _ in range(times)]


@pytest.mark.parametrize(
    "x",
    [
        ShiftedExponential(0.5, 2.0),
        Weibull(1.4, 1.0),
        Gamma(2.0, 1.0),
        Uniform(0.0, 1.0),
        Weibull(0.7, 1.0),
        Hyperexponential(0.9, (1.0, 0.1)),
        Pareto(1.0, 1.2),
        Pareto(1.0, 2.5),
        LogNormal(0.0, 1.0),
        Bimodal(1.0, 10.0, 0.05),
    ],
    ids=repr,
)
def test_five_hundred_values_are_enough(x: Family) -> None:
    assert verdicts(x).count(x.log_tail) >= 17


def test_exponential_times_are_seldom_refused() -> None:
    """Two tests at 5 %: about one in ten is called something."""
    assert 82 <= verdicts(Exponential(1.0), n=300, times=100).count("both") <= 98


def test_the_unit_of_time_does_not_matter() -> None:
    x = Pareto(1.0, 2.5).sample(np.random.default_rng(2), 400)
    one, other = (tail_shape(x * unit, np.random.default_rng(3)) for unit in (1.0, 1e-6))
    assert (one.verdict, one.p_concave, one.p_convex) == (other.verdict, other.p_concave, other.p_convex)
    assert one.convex_after_s == pytest.approx(1e6 * (other.convex_after_s or 0.0))


def test_from_which_age_on_waiting_is_hopeless() -> None:
    rng = np.random.default_rng(4)
    pareto = tail_shape(Pareto(2.0, 1.5).sample(rng, 1000), rng).convex_after_s
    assert pareto is not None
    assert 2.0 <= pareto < 2.2
    assert tail_shape(Hyperexponential(0.9, (1.0, 0.1)).sample(rng, 1000), rng).convex_after_s == 0.0
    assert tail_shape(Uniform(0.0, 1.0).sample(rng, 1000), rng).convex_after_s is None
    # A slow mode of its own: after the fast one its hazard rate rises again.
    two = np.where(rng.random(1000) < 0.1, 10.0, 1.0) * rng.gamma(30.0, 1 / 30, 1000)
    found = tail_shape(two, rng)
    assert (found.verdict, found.convex_after_s) == ("neither", None)


def test_equal_values_are_concave() -> None:
    found = tail_shape(np.full(150, 2.0), np.random.default_rng(5))
    assert (found.verdict, found.convex_after_s) == ("concave", None)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"alpha": 0.0}, "alpha: expected between"),
        ({"alpha": 0.01, "resamples": 50}, "resamples: expected >= 100"),
    ],
)
def test_what_cannot_be_told_is_named(more: dict, words: str) -> None:
    rng = np.random.default_rng(6)
    with pytest.raises(ValueError, match=words):
        tail_shape(rng.exponential(1.0, 200), rng, **more)
    with pytest.raises(ValueError, match="at least 100 values, got 99"):
        tail_shape(rng.exponential(1.0, 99), rng)
