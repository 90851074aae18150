"""Where a concatenation puts its slots."""

from __future__ import annotations

import numpy as np
import pytest

from parm_ray.codes import ConcatEncoder, cells, grid
from parm_ray.core import InvalidInput


@pytest.mark.parametrize(
    ("k", "shape"),
    [(1, (1, 1)), (2, (2, 1)), (3, (2, 2)), (4, (2, 2)), (5, (3, 2)), (6, (3, 2)), (7, (4, 2)), (8, (4, 2)),
     (9, (3, 3)), (11, (4, 3)), (16, (4, 4)), (64, (8, 8))],
)  # fmt: skip
def test_grids(k: int, shape: tuple[int, int]) -> None:
    assert grid(k) == shape


@pytest.mark.parametrize("k", range(1, 65))
def test_cells_tile_the_image_and_differ_by_a_pixel(k: int) -> None:
    for height, width in ((16, 16), (17, 23), (224, 224)):
        covered = np.zeros((height, width), int)
        borders = cells(k, height, width)
        for top, bottom, left, right in borders:
            covered[top:bottom, left:right] += 1
        assert (covered == 1).all()
        assert len(borders) >= k
        for sides in ({b - t for t, b, _, _ in borders}, {r - x for _, _, x, r in borders}):
            assert max(sides) - min(sides) <= 1
            assert min(sides) >= 1


def test_the_first_cells_are_the_slots_in_order_row_by_row() -> None:
    assert cells(2, 5, 4) == ((0, 2, 0, 4), (2, 5, 0, 4))
    assert cells(3, 4, 6) == ((0, 2, 0, 3), (0, 2, 3, 6), (2, 4, 0, 3), (2, 4, 3, 6))


@pytest.mark.parametrize(("k", "height", "width"), [(2, 1, 5), (4, 2, 1), (7, 3, 9)])
def test_refuses_images_smaller_than_the_grid(k: int, height: int, width: int) -> None:
    with pytest.raises(InvalidInput, match=r"^slots: expected images of at least \d x \d pixels for k = "):
        ConcatEncoder(k).encode([np.zeros((1, height, width, 3), "uint8")] * k)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (np.zeros((2, 9, 9), "uint8"), r"^slots: expected HWC images, \[b, 3 dims\], got shape"),
        (
            np.zeros((2, 9, 9, 3), "int64"),
            r"^slots: expected images of floats or of integers of 8 to 32 bits",
        ),
    ],
)
def test_refuses_what_is_no_image(batch: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ConcatEncoder(2).encode([batch, None])


@pytest.mark.parametrize(("k", "layout", "field"), [(0, "HWC", "k"), (65, "HWC", "k"), (2, "WHC", "layout")])
def test_refuses_bad_arguments(k: int, layout: str, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ConcatEncoder(k, layout)
    assert caught.value.field == field


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_fill_pixel_is_written_as_it_is_and_a_fill_image_is_reduced(layout: str, dtype: str) -> None:
    mean = np.array([123.675, 116.28, 103.53]).astype(dtype)
    query = (8, 6, 3) if layout == "HWC" else (3, 8, 6)
    pixel = mean if layout == "HWC" else mean[:, None, None]
    encoder = ConcatEncoder(2, layout)
    batch = np.zeros((1, *query), dtype)
    empty = encoder.encode([batch, None], pixel)[0]
    lower = empty[:, 4:] if layout == "HWC" else np.moveaxis(empty[:, :, 4:], 1, -1)
    assert (lower == mean).all()
    image = np.random.default_rng(0).integers(0, 256, query).astype(dtype)
    assert (encoder.encode([batch, None], image)[0] == encoder.encode([batch, image[None]])[0]).all()
