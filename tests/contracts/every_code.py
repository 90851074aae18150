"""The codes that the contract is held against, what sets some apart, and drawn queries and outputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from parm_ray.codes import Code, make_code
from parm_ray.codes.learned import CoderFile

Spec = tuple[str, str, int, int]
Draw = Callable[..., Any]

SPECS: list[Spec] = [
    *((encoder, decoder, k, 1) for encoder in ("sum", "concat") for decoder in ("subtract", "slot")
      for k in (1, 2, 3, 4, 7)),
    *(("weighted", "subtract", k, r)
      for k, r in ((1, 1), (1, 3), (2, 1), (2, 2), (3, 2), (4, 2), (4, 3), (8, 3))),
    *(("weighted", "slot", k, r) for k, r in ((2, 1), (2, 2), (3, 2))),
    *(("replicate", "copy", 1, r) for r in (1, 2, 3)),
    *(("berrut", "berrut", k, r) for k, r in ((1, 1), (2, 1), (3, 1), (4, 1), (8, 1), (2, 2), (5, 3))),
    *(("berrut", "subtract", k, r) for k, r in ((1, 1), (2, 1), (4, 1), (4, 2))),
    *(("learned", "learned", k, 1) for k in (1, 2, 3)),
]  # fmt: skip
QUERY_DTYPES = ("uint8", "uint16", "int8", "int16", "int32", "float16", "float32", "float64")
QUERY = (5, 6, 3)
OUTPUT_SHAPES = ((), (5,), (2, 3))
FEW = settings(max_examples=25, deadline=None)


def over(specs: list[Spec]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("spec", specs, ids=lambda spec: "{}-{}-k{}-r{}".format(*spec))


def inverts(spec: Spec) -> bool:
    """Whether decoding a target gives the outputs back: a net's never, an interpolant's of two answers."""
    if spec[1] == "berrut":
        return spec[2] == 1 or spec[2:] == (2, 1)
    return spec[1] != "learned"


def targeted(spec: Spec) -> bool:
    """Whether a parity model is trained for the code, so that it has something to be trained to answer."""
    return spec[1] != "learned"


every_code = over(SPECS)
every_targeted = over([spec for spec in SPECS if targeted(spec)])


@cache
def code_of(spec: Spec) -> Code:
    if spec[0] != "learned":
        return make_code(*spec)
    with TemporaryDirectory() as folder:
        path = Path(folder, "code.npz")
        random_coder(spec[2]).save(path)
        return make_code(*spec, weights=path)


def random_coder(k: int) -> CoderFile:
    """Nets of small random weights, for QUERY and outputs of 4 numbers."""
    random, d = np.random.default_rng(k), int(np.prod(QUERY))

    def layer(before: int, after: int) -> tuple[np.ndarray, np.ndarray]:
        weight, bias = random.normal(0, 0.1, (before, after)), random.normal(0, 0.1, after)
        return weight.astype("float32"), bias.astype("float32")

    return CoderFile(
        k=k,
        query_shape=QUERY,
        output_shape=(4,),
        mean=np.array([60, 40, 20], "float32"),
        std=np.array([9, 5, 2], "float32"),
        encoder=(layer(k * d, 7), layer(7, d)),
        decoder=(layer(5 * k + 4, 6), layer(6, 4 * k)),
    )


def exact(spec: Spec) -> bool:
    return spec[0] not in ("weighted", "berrut") or spec[1] == "slot"


def check(spec: Spec, actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    assert np.isfinite(actual).all()
    if not inverts(spec):
        return
    if exact(spec):
        assert_array_equal(actual, expected)
    else:
        assert_allclose(actual, expected, atol=1e-2)


def random_queries(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return random.normal(50, 40, shape).astype(dtype)
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def fractional(spec: Spec) -> bool:
    """Whether weights are not whole, so that parities of integers are floats."""
    return spec[0] == "learned" or (spec[0] == "berrut" and spec[2] > 1)


@st.composite
def lengths_of(draw: Draw, k: int) -> list[int]:
    lengths = draw(st.lists(st.integers(0, 3), min_size=k, max_size=k))
    if not any(lengths):
        lengths[draw(st.integers(0, k - 1))] = draw(st.integers(1, 3))
    return lengths


@st.composite
def slots_of(draw: Draw, k: int, dtypes: tuple[str, ...] = QUERY_DTYPES) -> list[np.ndarray | None]:
    dtype, seed = draw(st.sampled_from(dtypes)), draw(st.integers(0, 2**16))
    return [random_queries(dtype, (n, *QUERY), seed + i) if n else None
            for i, n in enumerate(draw(lengths_of(k)))]  # fmt: skip


@st.composite
def outputs_of(
    draw: Draw,
    lengths: list[int],
    dtype: str = "float32",
    shapes: tuple[tuple[int, ...], ...] = OUTPUT_SHAPES,
) -> list[np.ndarray | None]:
    shape, random = draw(st.sampled_from(shapes)), np.random.default_rng(draw(st.integers(0, 2**16)))
    return [random.integers(-99, 100, (n, *shape)).astype(dtype) if n else None for n in lengths]


def answers(
    code: Code, outputs: list[np.ndarray | None], lost: frozenset[int], rows: frozenset[int]
) -> tuple[list[np.ndarray | None], list[np.ndarray | None]]:
    """What has arrived: outputs but for the lost ones, and the targets of some parity rows, read-only."""
    own = [None if i in lost else output for i, output in enumerate(outputs)]
    parities = [_parity(code, row, outputs) if row in rows else None for row in range(code.r)]
    for array in (*own, *parities):
        if array is not None:
            array.flags.writeable = False
    return own, parities


def _parity(code: Code, row: int, outputs: list[np.ndarray | None]) -> np.ndarray:
    if code.decoder.name != "learned":
        return code.target(row, outputs)
    # The deployed model's answer to a learned parity follows from nothing: any will do.
    return np.copy(max((output for output in outputs if output is not None), key=len))


def present(lengths: list[int]) -> frozenset[int]:
    return frozenset(i for i, n in enumerate(lengths) if n)
