"""Sums and weighted sums: their dtypes, their weights on the wire, their normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from parm_ray.codes import LinearEncoder, make_code, sum_encoder
from parm_ray.core import InvalidInput


@pytest.mark.parametrize(
    ("dtype", "k", "expected"),
    [
        ("uint8", 1, "uint8"), ("uint8", 2, "uint16"), ("uint8", 257, "uint16"), ("uint8", 258, "uint32"),
        ("uint16", 2, "uint32"), ("uint32", 2, "uint64"), ("int8", 2, "int16"), ("int8", 256, "int16"),
        ("int8", 257, "int32"), ("int16", 2, "int32"), ("int32", 2, "int64"), ("int64", 1, "int64"),
        ("uint64", 1, "uint64"), ("float16", 2, "float32"), ("float32", 2, "float32"),
        ("float64", 2, "float64"),
    ],
)  # fmt: skip
def test_sums_widen_just_enough(dtype: str, k: int, expected: str) -> None:
    encoder = sum_encoder(k)
    assert encoder.parity_dtypes(dtype) == [np.dtype(expected)]
    high = np.finfo(dtype).max / k if dtype.startswith("f") else np.iinfo(dtype).max
    parity = encoder.encode([np.full((1, 2), high, dtype)] * k)[0]
    assert parity.dtype == expected
    if not dtype.startswith("f"):
        assert parity.tolist() == [[k * int(high)] * 2]


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_refuses_sums_that_no_integer_holds(dtype: str) -> None:
    with pytest.raises(InvalidInput, match=r"^slots: expected queries whose weighted sum fits 64 bits"):
        sum_encoder(2).encode([np.ones((1, 2), dtype)] * 2)


@pytest.mark.parametrize(
    ("weights", "dtype", "expected"),
    [
        ([[1, 1], [1, 2]], "uint8", ["uint16", "uint16"]),
        ([[1, 1], [1, -1]], "uint8", ["uint16", "int16"]),
        ([[1, 1], [100, 300]], "uint8", ["uint16", "uint32"]),
        ([[1, 1], [1, 1.5]], "uint8", ["uint16", "float32"]),
        ([[1, 1], [1, 1.5]], "int16", ["int32", "float32"]),
        ([[1, 1], [1, 1.5]], "int32", ["int64", "float64"]),
        ([[1, 1], [1, 1.5]], "float16", ["float32", "float32"]),
    ],
)
def test_weighted_rows_are_exact_in_their_dtypes(weights: Any, dtype: str, expected: list[str]) -> None:
    random = np.random.default_rng(0)
    slots = [random.integers(0, 100, (2, 3, 4)).astype(dtype) for _ in range(2)]
    parities = LinearEncoder("mine", 2, 2, weights).encode(slots)
    assert [str(parity.dtype) for parity in parities] == expected
    for parity, row in zip(parities, weights, strict=True):
        assert_array_equal(
            parity, sum(c * slot.astype("float64") for c, slot in zip(row, slots, strict=True))
        )


@pytest.mark.parametrize(
    ("weights", "extremes", "expected"),
    [([[-256]], [-128], 32768), ([[-255]], [-128], 32640), ([[130, -127]], [-128, 127], -32769)],
)
def test_a_parity_one_beyond_a_dtype_takes_the_next(
    weights: list[list[int]], extremes: list[int], expected: int
) -> None:
    encoder = LinearEncoder("mine", len(extremes), 1, weights)
    parity = encoder.encode([np.full((1, 1), extreme, "int8") for extreme in extremes])[0]
    assert parity.tolist() == [[expected]]
    assert parity.dtype == ("int16" if abs(expected) < 32768 else "int32")


def test_the_paper_s_second_parity() -> None:
    one, two = np.array([[1, 2]], "uint8"), np.array([[10, 255]], "uint8")
    first, second = make_code("weighted", "subtract", 2, 2).encode([one, two])
    assert first.tolist() == [[11, 257]]
    assert second.tolist() == [[21, 512]]


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("r", [1, 2])
def test_normalised_parities_have_the_spread_of_a_plain_sum(k: int, r: int) -> None:
    mean, std = np.array([120.0, 90.0]), np.array([30.0, 12.0])
    random = np.random.default_rng(k)
    code = make_code("weighted", "subtract", k, r)
    slots = [random.normal(mean, std, (50_000, 2)) for _ in range(k)]
    for row, parity in enumerate(code.encode(slots)):
        parity_mean, parity_std = code.normalisation(row, mean, std)
        normal = (parity - parity_mean) / parity_std
        assert_allclose(normal.mean(axis=0), 0, atol=0.05)
        assert_allclose(normal.std(axis=0), np.sqrt(k), rtol=0.02)


def test_a_sum_is_normalised_by_k_means_and_the_std_as_it_is() -> None:
    mean, std = make_code("sum", "subtract", 3).normalisation(0, [10, 20], [3, 4])
    assert mean.tolist() == [30, 60]
    assert std.tolist() == [3, 4]
    mean, std = make_code("concat", "slot", 3).normalisation(0, [10, 20], [3, 4])
    assert mean.tolist() == [10, 20]
    assert std.tolist() == [3, 4]


def test_a_fill_of_integers_is_rounded_and_counts_in_every_parity() -> None:
    code = make_code("weighted", "subtract", 2, 2)
    parities = code.encode([np.array([[1]], "uint8"), None], fill=6.6)
    assert [parity.tolist() for parity in parities] == [[[8]], [[15]]]


@pytest.mark.parametrize(
    ("k", "r", "field"), [(0, 1, "k"), (1025, 1, "k"), (2, 0, "r"), (2, 9, "r"), (2.0, 1, "k")]
)
def test_refuses_bad_counts(k: Any, r: int, field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: expected a whole number"):
        LinearEncoder("mine", k, r)
