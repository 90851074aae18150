from __future__ import annotations

import numpy as np
import pytest

from parm_ray.workload import SlowCalls


def model(service_s: float, share: float, factor: float, seed: int = 0) -> SlowCalls:
    return SlowCalls(service_s, share, factor, np.random.default_rng(seed))


def test_draws_two_values_at_the_wanted_share() -> None:
    calls = model(0.025, 0.02, 10)
    drawn = np.array([calls.draw() for _ in range(20_000)])
    assert set(drawn.tolist()) == {0.025, 0.25}
    assert np.mean(drawn == 0.25) == pytest.approx(0.02, rel=0.15)
    assert drawn.mean() == pytest.approx(calls.mean_s, rel=0.05)


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (1.0, 3.0)])
def test_shares_of_none_and_all(share: float, expected: float) -> None:
    calls = model(1.0, share, 3.0)
    assert {calls.draw() for _ in range(1000)} == {expected}


def test_same_seed_same_draws() -> None:
    one, other = model(1, 0.5, 2, seed=7), model(1, 0.5, 2, seed=7)
    assert [one.draw() for _ in range(50)] == [other.draw() for _ in range(50)]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [((-1, 0, 1), "service_s"), ((1, 1.5, 1), "slow_share"), ((1, 0, 0.5), "slow_factor")],
)
def test_refuses_bad_arguments(arguments: tuple[float, float, float], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        model(*arguments)
