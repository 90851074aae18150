"""A concatenation's tiles are OpenCV's own area reductions, bit for bit."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from parm_ray.codes import cells, make_code
from parm_ray.codes.area import reduce_into

K = (1, 2, 3, 4, 5, 6, 8, 9)


def reduced(image: np.ndarray, cell_h: int, cell_w: int) -> np.ndarray:
    """OpenCV's answer for one image `[H, W, C]` of a dtype that it takes."""
    return cv2.resize(image, (cell_w, cell_h), interpolation=cv2.INTER_AREA).reshape(cell_h, cell_w, -1)


@settings(max_examples=150, deadline=None)
@given(
    k=st.sampled_from(K),
    layout=st.sampled_from(["HWC", "CHW"]),
    channels=st.sampled_from([1, 3]),
    sides=st.tuples(st.integers(4, 40), st.integers(4, 40)),
    dtype=st.sampled_from(["uint8", "uint8", "uint16", "float32"]),
    rows=st.integers(1, 3),
    seed=st.integers(0, 2**16),
)
def test_tiles_are_opencvs(
    k: int, layout: str, channels: int, sides: tuple[int, int], dtype: str, rows: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    images = [random.integers(0, 256, (rows, *sides, channels)).astype(dtype) for _ in range(k)]
    slots = images if layout == "HWC" else [np.moveaxis(image, -1, 1) for image in images]
    parity = make_code("concat", "slot", k, layout=layout).encode(slots, fill=9)[0]
    assert parity.shape == slots[0].shape
    assert parity.dtype == dtype
    if layout == "CHW":
        parity = np.moveaxis(parity, 1, -1)
    for i, (top, bottom, left, right) in enumerate(cells(k, *sides)):
        for row in range(rows):
            tile = parity[row, top:bottom, left:right]
            if i >= k:
                assert (tile == 9).all()
                continue
            expected = reduced(images[i][row], bottom - top, right - left)
            if dtype == "float32":
                assert_allclose(tile, expected, rtol=1e-5)
            else:
                assert_array_equal(tile, expected)


@pytest.mark.parametrize("k", K)
@pytest.mark.parametrize("size", [(224, 224), (225, 223), (32, 32), (28, 28)])
def test_tiles_are_opencvs_at_the_usual_sizes(k: int, size: tuple[int, int]) -> None:
    images = np.random.default_rng(k).integers(0, 256, (k, 1, *size, 3), "uint8")
    parity = make_code("concat", "slot", k).encode(list(images))[0][0]
    for image, (top, bottom, left, right) in zip(images, cells(k, *size), strict=False):
        assert_array_equal(parity[top:bottom, left:right], reduced(image[0], bottom - top, right - left))


def test_every_pair_of_pixels_is_halved_as_opencv_halves_it() -> None:
    pairs = np.stack(np.meshgrid(np.arange(256), np.arange(256), indexing="ij")).astype("uint8")
    image = pairs.transpose(1, 0, 2).reshape(512, 256, 1)
    out = np.empty((1, 256, 256, 1), "uint8")
    reduce_into(out, image[None])
    assert_array_equal(out[0], reduced(image, 256, 256))


@pytest.mark.parametrize("dtype", ["uint8", "float32", "int8", "int32", "float16", "float64"])
@pytest.mark.parametrize("channels", [0, 1, 2, 3, 4, 5, 6, 7, 8, 13])
@pytest.mark.parametrize("target", [(6, 5), (6, 10), (12, 5), (4, 3)])
def test_any_number_of_channels_is_reduced_channel_by_channel(
    dtype: str, channels: int, target: tuple[int, int]
) -> None:
    images = np.random.default_rng(channels).integers(0, 100, (2, 12, 10, channels)).astype(dtype)
    out = np.empty((2, *target, channels), dtype)
    reduce_into(out, images)
    wide = {"int8": "float32", "float16": "float32", "int32": "float64"}.get(dtype, dtype)
    for image, tile in zip(images, out, strict=True):
        for channel in range(channels):
            expected = reduced(np.ascontiguousarray(image[..., channel : channel + 1]).astype(wide), *target)
            if dtype.startswith("int"):
                expected = np.rint(expected)
            assert_array_equal(tile[..., channel : channel + 1], expected.astype(dtype))


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32"])
def test_extreme_integers_stay_in_range(dtype: str) -> None:
    info = np.iinfo(dtype)
    for value in (info.min, info.max):
        out = np.empty((1, 3, 4, 1), dtype)
        reduce_into(out, np.full((1, 7, 9, 1), value, dtype))
        assert_array_equal(out, np.full_like(out, value))
