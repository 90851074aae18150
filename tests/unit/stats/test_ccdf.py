from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parm_ray.stats import ccdf, thin


def test_points() -> None:
    x, share = ccdf([3.0, 1.0, 2.0, 2.0])
    assert x.tolist() == [1.0, 2.0, 3.0]
    assert share.tolist() == [1.0, 0.75, 0.25]


def test_failures_put_a_floor_under_the_curve() -> None:
    x, share = ccdf([1.0, 2.0], failed=2)
    assert x.tolist() == [1.0, 2.0]
    assert share.tolist() == [1.0, 0.75]


def test_nothing_gives_nothing() -> None:
    assert [len(a) for a in ccdf([])] == [0, 0]
    assert [len(a) for a in thin(*ccdf([]))] == [0, 0]


@given(values=st.lists(st.floats(0, 100), min_size=1, max_size=50), failed=st.integers(0, 5))
def test_shares_are_the_shares_of_values_at_least_x(values: list[float], failed: int) -> None:
    for x, share in zip(*ccdf(values, failed), strict=True):
        expected = (sum(v >= x for v in values) + failed) / (len(values) + failed)
        assert share == pytest.approx(expected)


def test_thinning_keeps_both_ends_and_the_sparse_tail() -> None:
    x, share = ccdf(np.random.default_rng(0).exponential(1.0, 20_000))
    few, few_share = thin(x, share, per_decade=50)
    assert len(few) < 250
    assert (few[0], few[-1]) == (x[0], x[-1])
    assert set(x[-8:]) <= set(few)
    assert few_share[-1] == share[-1]


def test_refuses_bad_arguments() -> None:
    with pytest.raises(ValueError, match="failed"):
        ccdf([1.0], failed=-1)
    with pytest.raises(ValueError, match="per_decade"):
        thin(*ccdf([1.0]), per_decade=0)
