"""Edges of the codes that once went wrong."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from parm_ray.codes import make_code
from parm_ray.core import InvalidInput, NotRecoverable

ONE = np.ones((1, 2), np.float32)


def test_a_negative_slot_is_no_slot() -> None:
    """It was answered with the parity less all outputs, where nothing was missing."""
    code = make_code("sum", "subtract", 2)
    for own in ([ONE, ONE], [ONE, None], [None, ONE]):
        with pytest.raises(NotRecoverable):
            code.decode(own, [2 * ONE], [1, 1], [-1])


def test_nothing_wanted_is_nothing_decoded_even_if_no_parity_is_there() -> None:
    assert make_code("sum", "subtract", 2).decode([ONE, None], [None], [1, 1], []) == {}


def test_a_slot_is_not_decoded_from_outputs_of_other_lengths_than_promised() -> None:
    with pytest.raises(InvalidInput, match=r"^outputs\[1\]: expected 2 rows"):
        make_code("sum", "subtract", 2).decode([None, ONE], [2 * ONE], [1, 2], [0])


def test_float16_answers_lose_no_more_than_their_own_rounding() -> None:
    """Subtracting in place rounded to float16 after every other answer."""
    outputs = [np.full((1, 1), value, np.float16) for value in (2048, -2047, 1, 1)]
    parity = np.full((1, 1), 3, np.float16)
    decoded = make_code("sum", "subtract", 4).decode([None, *outputs[1:]], [parity], [1] * 4, [0])[0]
    assert decoded.dtype == np.float16
    assert decoded.tolist() == [[2048]]


def test_32_bit_images_keep_their_extremes() -> None:
    """OpenCV's float32 weights carried 2**31 - 1 past the end of its dtype, to -2**31."""
    for dtype in ("int32", "uint32"):
        value = np.iinfo(dtype).max
        parity = make_code("concat", "slot", 2).encode([np.full((1, 5, 6, 3), value, dtype)] * 2)[0]
        assert_array_equal(parity, np.full_like(parity, value))


@pytest.mark.parametrize(
    ("dtype", "fill"), [("int64", 2.0**63), ("uint64", 2.0**64), ("uint8", [[1], [1, 2]]), ("uint8", np.nan)]
)
def test_fills_that_are_no_query_are_refused(dtype: str, fill: Any) -> None:
    """The ends of a 64-bit range were compared after rounding, and ragged lists raised numpy's error."""
    with pytest.raises(InvalidInput, match=r"^fill: "):
        make_code("weighted", "slot", 2, weights=[[1, 0.5]]).encode([np.zeros((1, 2), dtype), None], fill)


def _peak(run: Callable[[], Any]) -> int:
    run()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("k", [2, 4])
def test_a_sum_of_images_is_made_in_the_parity_and_nowhere_else(k: int) -> None:
    """A widened copy per query came fresh from the operating system, at ten times the cost of adding it."""
    code, slots = make_code("sum", "subtract", k), [np.ones((1, 224, 224, 3), np.uint8)] * k
    assert _peak(lambda: code.encode(slots)) < 1.1 * code.encode(slots)[0].nbytes


def test_halving_a_large_image_takes_no_memory_of_its_size() -> None:
    code, slots = make_code("concat", "slot", 2), [np.ones((1, 1080, 1920, 3), np.uint8)] * 2
    assert _peak(lambda: code.encode(slots)) < 1.1 * slots[0].nbytes
