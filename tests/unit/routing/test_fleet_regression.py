"""Profiles from measured points."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from parm_ray.routing.fleet.latency import MM1
from parm_ray.routing.fleet.regression import fit_profile


def test_noisy_points_of_a_queue_give_its_delay_back() -> None:
    rng = np.random.default_rng(1)
    loads = np.repeat(np.linspace(5, 90, 18), 20)
    truth = MM1(100.0)
    seconds = np.array([truth.total(y) / y for y in loads]) * rng.normal(1, 0.1, len(loads))
    profile = fit_profile(loads, seconds, pieces=18)
    for load in (20.0, 50.0, 80.0, 88.0):
        assert profile.total(load) == pytest.approx(truth.total(load), rel=0.1)
    slopes = [profile.slope(load) for load in np.linspace(1, 89, 50)]
    assert all(b >= a for a, b in pairwise(slopes))
    assert profile.limit == 90


def test_it_ends_where_measurements_do_and_begins_at_nothing() -> None:
    profile = fit_profile([10, 20, 30, 40], [0.1, 0.1, 0.2, 0.4], pieces=2)
    assert (profile.loads[0], profile.limit) == (0.0, 40.0)
    assert profile.total(0.0) == 0.0


def test_a_latency_that_falls_is_pooled() -> None:
    profile = fit_profile([10, 20, 30], [0.2, 0.1, 0.3])
    assert profile.seconds[0] == pytest.approx(0.15)
    assert list(profile.seconds) == sorted(profile.seconds)


@pytest.mark.parametrize(
    ("field", "loads", "seconds", "pieces"),
    [("seconds", [1, 2], [1], 3), ("loads", [1, 1], [1, 2], 3), ("loads", [0, 1], [1, 2], 3),
     ("seconds", [1, 2], [1, float("nan")], 3), ("pieces", [1, 2], [1, 2], 0)],
)  # fmt: skip
def test_points_that_make_no_profile_are_refused_by_name(field, loads, seconds, pieces) -> None:
    with pytest.raises(ValueError, match=field):
        fit_profile(loads, seconds, pieces)
