"""Delays of engines against closed forms and against themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from parm_ray.routing.fleet import MG1, MM1, EngineLatency, MGc, Profile
from parm_ray.routing.fleet.latency import Free, rising

MODELS: list[EngineLatency] = [
    MM1(100.0),
    MG1(100.0, 0.0),
    MG1(80.0, 4.0),
    MGc(100.0, 1, 1.0),
    MGc(100.0, 7, 0.5),
    MGc(5000.0, 400, 2.0),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_slopes_are_the_derivative_rise_and_are_found_again(model: EngineLatency) -> None:
    loads = model.limit * np.array([0.01, 0.3, 0.6, 0.9, 0.98])
    step = 1e-6 * model.limit
    slopes = [model.slope(load) for load in loads]
    for load, slope in zip(loads, slopes, strict=True):
        assert slope == pytest.approx(
            (model.total(load + step) - model.total(load - step)) / (2 * step), rel=1e-5
        )
        # Many servers are hardly felt at low load: there the slope says nothing of the load.
        assert model.slope(model.load_at(slope)) == pytest.approx(slope, rel=1e-9)
    assert slopes == sorted(slopes)
    assert model.load_at(0.0) == 0.0
    assert model.total(model.limit) == model.slope(model.limit) == math.inf


def test_one_server_with_exponential_times_is_the_same_by_every_name() -> None:
    for load in (1.0, 50.0, 99.0):
        same = [model.total(load) for model in (MM1(100.0), MG1(100.0, 1.0), MGc(100.0, 1, 1.0))]
        assert same == pytest.approx([load / (100 - load)] * 3)


def test_two_servers_wait_as_erlang_says() -> None:
    """c = 2, each 1/s, load 1.5: rho .75, P(wait) = 2 rho^2 / (1 + rho) = .642857, W = P / (2 - 1.5)."""
    assert MGc(2.0, 2).total(1.5) == pytest.approx(1.5 * (1 + 0.642857142857 / 0.5))


def test_a_profile_is_linear_between_its_points_and_ends_at_the_last() -> None:
    profile = Profile((0.0, 50.0, 90.0), (0.2, 0.22, 0.5))
    assert [profile.total(load) for load in (0.0, 50.0, 90.0)] == pytest.approx([0.0, 11.0, 45.0])
    assert profile.total(70.0) == pytest.approx(28.0)
    assert (profile.slope(20.0), profile.slope(50.0)) == pytest.approx((0.22, 0.85))
    assert (profile.load_at(0.1), profile.load_at(0.5), profile.load_at(2.0)) == (0.0, 50.0, 90.0)
    assert profile.total(90.1) == math.inf


def test_a_profile_whose_totals_are_not_convex_is_made_so() -> None:
    """Measured noise: the second slope is below the first; both become their mean by width."""
    profile = Profile((0.0, 10.0, 20.0, 30.0), (0.4, 0.4, 0.3, 0.5))
    assert [profile.slope(load) for load in (5.0, 15.0, 25.0)] == pytest.approx([0.3, 0.3, 0.9])
    assert profile.total(30.0) == pytest.approx(15.0)


def test_the_nearest_rising_sequence() -> None:
    assert rising([1, 3, 2, 4], [1, 1, 1, 1]) == (1, 2.5, 2.5, 4)
    assert rising([3, 2, 1], [1, 1, 2]) == pytest.approx((1.75,) * 3)


@pytest.mark.parametrize(
    ("loads", "seconds", "words"),
    [((0.0,), (1.0,), "two or more"), ((1.0, 2.0), (1.0, 1.0), "ascending from 0"),
     ((0.0, 2.0, 2.0), (1.0,) * 3, "ascending"), ((0.0, 1.0), (1.0, 0.0), "positive")],
)  # fmt: skip
def test_what_is_no_profile_is_named(
    loads: tuple[float, ...], seconds: tuple[float, ...], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Profile(loads, seconds)


def test_a_free_engine_costs_nothing_up_to_its_limit() -> None:
    assert (Free(10.0).total(10.0), Free(10.0).total(10.1)) == (0.0, math.inf)
