"""Linear decoding where it branches: the quick way, stretches of unequal batches, parities to spare."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from parm_ray.codes import LinearDecoder, make_code
from parm_ray.core import InvalidInput, NotRecoverable

ONE = np.array([[1.0, 2.0]], "float32")


def outputs_of(lengths: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    random = np.random.default_rng(sum(lengths))
    return [random.integers(-50, 50, (n, 3)).astype(dtype) if n else None for n in lengths]


@pytest.mark.parametrize("r", [1, 2, 3])
@pytest.mark.parametrize("lengths", list(product(range(3), repeat=3))[1:])
def test_all_unequal_lengths_and_losses(r: int, lengths: tuple[int, ...]) -> None:
    code, outputs = make_code("weighted", "subtract", 3, r), outputs_of(lengths)
    parities = [code.target(row, outputs) for row in range(r)]
    here = [i for i in range(3) if lengths[i]]
    for pattern in product([False, True], repeat=len(here)):
        lost = [i for i, gone in zip(here, pattern, strict=True) if gone]
        own = [None if i in lost else output for i, output in enumerate(outputs)]
        if len(lost) > r:
            with pytest.raises(NotRecoverable):
                code.decode(own, parities, lengths, lost)
            continue
        for slot, output in code.decode(own, parities, lengths, lost).items():
            assert output.dtype == np.float32
            assert_allclose(output, outputs[slot], atol=1e-3)


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_quick_way_and_the_general_way_agree(k: int, dtype: str) -> None:
    code, outputs = make_code("sum", "subtract", k), outputs_of((2,) * k, dtype)
    parity = code.target(0, outputs).astype(dtype)
    for slot in range(k):
        own = [None if i == slot else output for i, output in enumerate(outputs)]
        quick = code.decode(own, [parity], [2] * k, [slot])[slot]
        general = code.decode(own, [parity], [2] * k, [slot, slot])[slot]
        assert quick.dtype == general.dtype == dtype
        assert_array_equal(quick, general)
        assert_array_equal(quick, outputs[slot])


def test_decoding_leaves_its_arguments_alone_and_answers_with_arrays_of_its_own() -> None:
    code = make_code("sum", "subtract", 3)
    own, parity = [None, ONE, ONE], 3 * ONE
    decoded = code.decode(own, [parity], [1, 1, 1], [0])[0]
    decoded += 7
    assert_array_equal(ONE, [[1, 2]])
    assert_array_equal(parity, [[3, 6]])


def test_a_lone_slot_is_its_parity() -> None:
    code = make_code("sum", "subtract", 3)
    assert_array_equal(code.decode([None] * 3, [ONE], [0, 1, 0], [1])[1], ONE)


def test_outputs_of_another_dtype_are_taken_and_the_parity_s_comes_out() -> None:
    code = make_code("sum", "subtract", 3)
    for dtype in ("float64", "float16", "int32", "uint8"):
        own = [None, ONE.astype(dtype), ONE.astype(dtype)]
        decoded = code.decode(own, [3 * ONE], [1, 1, 1], [0])[0]
        assert decoded.dtype == np.float32
        assert_array_equal(decoded, ONE)


def test_narrow_floats_are_summed_in_wider_ones() -> None:
    one, two, parity = (np.array([[value]], "float16") for value in (-2001, 5000, 3002))
    # In float16 3002 + 2001 is 5004.
    assert make_code("sum", "subtract", 3).decode([None, one, two], [parity], [1, 1, 1], [0])[0] == 3


def test_surplus_rows_of_a_parity_are_ignored() -> None:
    code = make_code("weighted", "subtract", 2, 2)
    parities = [np.concatenate([c * ONE, np.full((c, 2), np.nan, "float32")]) for c in (2, 3)]
    for own, lost in (([None, ONE], [0]), ([None, None], [0, 1])):
        for output in code.decode(own, parities, [1, 1], lost).values():
            assert_allclose(output, ONE, rtol=1e-5)


def test_parities_to_spare_average_their_errors_each_by_its_own_size() -> None:
    code, random = make_code("weighted", "subtract", 4, 2), np.random.default_rng(1)
    rows, sizes = 100_000, (1.0, np.sqrt(30 / 4))
    noise = [random.normal(0, size, (rows, 1)) for size in sizes]
    own = [None, *[np.zeros((rows, 1))] * 3]
    both = code.decode(own, noise, [rows] * 4, [0])[0].std()
    first = code.decode(own, [noise[0], None], [rows] * 4, [0])[0].std()
    second = code.decode(own, [None, noise[1]], [rows] * 4, [0])[0].std()
    assert both < first < second
    # The best that independent errors allow: 1 / var = sum of c_l^2 / var_l.
    assert both == pytest.approx((1 + 1 / sizes[1] ** 2) ** -0.5, rel=0.02)


@pytest.mark.parametrize(
    ("own", "parities", "field"),
    [
        ([None, ONE], [np.array([[3, 3]])], "parities[0]"),
        ([None, np.array([[1, 2]], "uint8")], [np.array([[0, 0]], "uint8")], "parities[0]"),
        ([None, ONE], [np.array(3.0)], "parities[0]"),
        ([None, ONE], [np.zeros((1, 3), "float32")], "outputs"),
        ([None, ONE], [np.zeros((1, 2, 2), "float32")], "outputs"),
        ([None, np.float32(1)], [ONE], "outputs[1]"),
    ],
)
def test_refuses_answers_of_other_kinds(own: list[Any], parities: list[Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make_code("sum", "subtract", 2).decode(own, parities, [1, 1], [0])
    assert caught.value.field == field


def test_targets_refuse_outputs_of_two_shapes() -> None:
    for code in (make_code("sum", "subtract", 2), make_code("sum", "slot", 2)):
        with pytest.raises(InvalidInput, match=r"^outputs\[1\]: expected \[b, 2\] like the others"):
            code.target(0, [ONE, ONE[:, :1]])


def test_slot_decoding_needs_a_head_per_slot_and_takes_the_first_parity_there_is() -> None:
    code = make_code("weighted", "slot", 2, 2)
    heads = np.arange(12, dtype="float32").reshape(2, 2, 3)
    decoded = code.decode([None, None], [None, heads], [2, 1], [0, 1])
    assert_array_equal(decoded[0], heads[:, 0])
    assert_array_equal(decoded[1], heads[:1, 1])
    assert decoded[0].flags.c_contiguous
    for shape in ((2, 3, 3), (2,)):
        with pytest.raises(InvalidInput, match=r"^parities: expected answers \[b, 2, ...\], a head per slot"):
            code.decode([None, None], [np.zeros(shape), None], [2, 1], [0])


def test_a_solver_is_made_once_per_pattern() -> None:
    decoder = LinearDecoder(np.array([[1.0, 1.0], [1.0, 2.0]]))
    for _ in range(3):
        decoder.decode([None, None], [ONE, ONE], [1, 1], [0, 1])
    assert list(decoder._solvers) == [((0, 1), (0, 1))]
