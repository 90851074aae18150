from __future__ import annotations

import math

import numpy as np
import pytest

from parm_ray.workload.ranges import number, numbers, whole


def test_legal_numbers_come_back_as_floats_and_ints() -> None:
    assert number("x", 0, at_least=0) == 0.0
    assert number("x", np.float32(0.5), above=0, at_most=0.5) == 0.5
    assert whole("n", np.int64(3)) == 3
    assert numbers("x", [1, 2]).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, 11, "1", None, True, [1]])
def test_the_message_names_field_range_unit_and_value(value: object) -> None:
    with pytest.raises(ValueError, match=r"wait_s: expected seconds >= 0 and <= 10, got") as refused:
        number("wait_s", value, at_least=0, at_most=10, unit="seconds")
    assert str(refused.value).endswith(str(value) if not isinstance(value, str) else repr(value))


def test_above_leaves_the_bound_out() -> None:
    with pytest.raises(ValueError, match=r"x: expected a number > 1, got 1"):
        number("x", 1.0, above=1)


@pytest.mark.parametrize("value", [-1, 1.0, "1", True])
def test_whole_numbers_only(value: object) -> None:
    with pytest.raises(ValueError, match=r"n: expected a whole number >= 0"):
        whole("n", value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], r"x: expected a list of at least one number, got shape \[0\]"),
        ([[1.0]], r"got shape \[1, 1\]"),
        (3.0, r"got shape \[\]"),
        (["a"], r"x: expected numbers"),
        ([True], r"x: expected numbers, got bool"),
        ([1.0, 2.0, math.nan], r"x\[2\]: expected a finite number >= 0, got nan"),
        ([1.0, -2.0], r"x\[1\]: .* got -2"),
        ([math.inf], r"x\[0\]: .* got inf"),
    ],
)
def test_lists_name_the_first_bad_value(values: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        numbers("x", values)
