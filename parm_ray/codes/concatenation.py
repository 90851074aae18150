"""Concatenation: each query, reduced by area, takes a cell of one parity image of the queries' size.

The paper's encoder for images (Kosaian, Rashmi, Venkataraman, "Parity Models", SOSP 2019, there for
k = 2 and 4), for any k and image size. The parity has the queries' own shape and dtype, so it costs
the parity model what one query costs the deployed model.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from parm_ray.codes.area import reduce_into
from parm_ray.codes.base import Array, Batch
from parm_ray.codes.shape import check_count, check_slots, fill_row
from parm_ray.core import InvalidInput

LAYOUTS = ("HWC", "CHW")
MAX_K = 64


class Cell(NamedTuple):
    """Rows `top..bottom` and columns `left..right` of the parity image."""

    top: int
    bottom: int
    left: int
    right: int


@cache
def grid(k: int) -> tuple[int, int]:
    """Rows and columns: the fewest empty cells among grids with columns <= rows <= 2 x columns.

    2 -> 2x1, 3 and 4 -> 2x2, 5 and 6 -> 3x2, 7 and 8 -> 4x2, 9 -> 3x3. Rows are split first
    because rows are contiguous in memory, which is what makes k = 2 fast; no cell is squeezed more
    than twice as much one way as the other, so a prime k leaves a cell or so empty rather than cut
    the image into ribbons.
    """
    shapes = [(rows, cols) for cols in range(1, k + 1) for rows in range(cols, 2 * cols + 1)]
    return min((s for s in shapes if s[0] * s[1] >= k), key=lambda s: (s[0] * s[1], s[0] - s[1]))


@lru_cache(maxsize=256)
def cells(k: int, height: int, width: int) -> tuple[Cell, ...]:
    """Borders of all cells of the grid, row by row; the first k belong to slots 0..k-1.

    Sides that do not divide are split so that cells differ by at most one pixel.
    Raises InvalidInput naming `slots` when an image is too small for the grid.
    """
    rows, cols = grid(k)
    if height < rows or width < cols:
        raise InvalidInput(
            "slots", f"images of at least {rows} x {cols} pixels for k = {k}", f"{height} x {width}"
        )
    ys = [height * i // rows for i in range(rows + 1)]
    xs = [width * i // cols for i in range(cols + 1)]
    return tuple(
        Cell(top, bottom, left, right) for top, bottom in pairwise(ys) for left, right in pairwise(xs)
    )


class ConcatEncoder:
    """One parity image per row of the batches, in the cells that `cells` lists.

    k: 1..64; layout: "HWC" or "CHW", where a query's channels are.
    Raises InvalidInput naming `k` or `layout`.
    """

    name = "concat"
    r = 1

    def __init__(self, k: int, layout: str = "HWC") -> None:
        self.k = check_count("k", k, 1, MAX_K)
        if layout not in LAYOUTS:
            raise InvalidInput("layout", f"one of {', '.join(LAYOUTS)}", repr(layout))
        self.layout = layout

    def encode(self, slots: Sequence[Batch], fill: ArrayLike | None = None) -> list[Array]:
        """See `Encoder.encode`; queries are images of three dims in this encoder's layout.

        Cells that no slot owns hold the fill, as if their slots had stayed empty.
        """
        longest = check_slots(slots, self.k)
        if longest.ndim != 4:
            raise InvalidInput("slots", f"{self.layout} images, [b, 3 dims]", f"shape {longest.shape}")
        if longest.dtype.kind in "ui" and longest.dtype.itemsize > 4:
            raise InvalidInput("slots", "images of floats or of integers of 8 to 32 bits", str(longest.dtype))
        out = np.empty(longest.shape, longest.dtype)
        images = self._channels_last(out)
        planes, rows = len(images) // len(out), len(out)
        for i, cell in enumerate(cells(self.k, *images.shape[1:3])):
            target = images[:, cell.top : cell.bottom, cell.left : cell.right]
            batch = slots[i] if i < self.k else None
            have = 0 if batch is None else len(batch)
            if batch is not None:
                reduce_into(target[: have * planes], self._channels_last(batch))
            if have < rows:
                query = fill_row(fill, longest)
                absent = query[None] if self.layout == "HWC" else query[..., None]
                for row in range(have, rows):
                    _fill(target[row * planes : (row + 1) * planes], absent)
        return [out]

    def _channels_last(self, batch: Array) -> Array:
        """A view `[b, H, W, C]`; planes of CHW images become images of one channel each."""
        if self.layout == "HWC":
            return batch
        b, c, h, w = batch.shape
        return batch.reshape(b * c, h, w, 1)

    def normalisation(self, row: int, mean: ArrayLike, std: ArrayLike) -> tuple[Array, Array]:
        """Those of the queries: every pixel of the parity is a mean of query pixels."""
        check_count("row", row, 0, 0)
        return np.asarray(mean, np.float32), np.asarray(std, np.float32)


def _fill(target: Array, absent: Array) -> None:
    """Write a cell of fill; one pixel repeated stays that pixel, not its average in floats."""
    if absent.strides[1] == absent.strides[2] == 0:
        target[...] = absent[:, :1, :1]
    else:
        reduce_into(target, absent)
