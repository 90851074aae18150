"""Concatenation: each query, reduced by area, takes a cell of one parity image of the queries' size.

From the paper's image-specific encoder (section 4.2.3), for any k and image size. The parity has the
queries' own shape and dtype, so it costs the parity model what one query costs the deployed model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from parm_ray.codes.area import reduce_into
from parm_ray.codes.shape import Array, Batch, check_count, check_slots, padded
from parm_ray.core import InvalidInput

LAYOUTS = ("HWC", "CHW")
MAX_K = 64


class Cell(NamedTuple):
    """Rows `top..bottom` and columns `left..right` of the parity image."""

    top: int
    bottom: int
    left: int
    right: int


def grid(k: int) -> tuple[int, int]:
    """Rows and columns: the fewest empty cells among grids with columns <= rows <= 2 x columns.

    2 -> 2x1, 3 -> 2x2, 4 -> 2x2, 5 and 6 -> 3x2, 7 and 8 -> 4x2, 9 -> 3x3. Rows are split first
    because rows are contiguous in memory; no cell is squeezed more than twice as much one way as
    the other.
    """
    shapes = [(rows, cols) for cols in range(1, k + 1) for rows in range(cols, 2 * cols + 1)]
    return min((s for s in shapes if s[0] * s[1] >= k), key=lambda s: (s[0] * s[1], s[0] - s[1]))


def cells(k: int, height: int, width: int) -> list[Cell]:
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
    return [
        Cell(top, bottom, left, right)
        for top, bottom in zip(ys, ys[1:], strict=False)
        for left, right in zip(xs, xs[1:], strict=False)
    ]


class ConcatEncoder:
    """One parity image per row of the batches. layout: "HWC" or "CHW", where a query's channels are."""

    name = "concat"
    r = 1

    def __init__(self, k: int, layout: str = "HWC") -> None:
        self.k = check_count("k", k, 1, MAX_K)
        if layout not in LAYOUTS:
            raise InvalidInput("layout", f"one of {', '.join(LAYOUTS)}", repr(layout))
        self.layout = layout

    def encode(self, slots: Sequence[Batch], fill: ArrayLike | None = None) -> list[Array]:
        """See `Encoder.encode`; queries are images of three dims in this encoder's layout."""
        slots, longest = check_slots(slots, self.k)
        if longest.ndim != 4:
            raise InvalidInput("slots", f"{self.layout} images, [b, 3 dims]", f"shape {longest.shape}")
        out = np.empty(longest.shape, longest.dtype)
        images = self._channels_last(out)
        for i, cell in enumerate(cells(self.k, *images.shape[1:3])):
            # Cells that no slot owns look like slots that stayed empty.
            batch = padded(slots[i] if i < self.k else None, len(longest), fill, longest)
            target = images[:, cell.top : cell.bottom, cell.left : cell.right]
            reduce_into(target, self._channels_last(batch))
        return [out]

    def _channels_last(self, batch: Array) -> Array:
        """A view `[b, H, W, C]`; planes of CHW images become images of one channel each."""
        if self.layout == "HWC":
            return batch
        b, c, h, w = batch.shape
        return batch.reshape(b * c, h, w, 1)

    def normalisation(self, row: int, mean: ArrayLike, std: ArrayLike) -> tuple[Array, Array]:
        """Those of the queries: every pixel of the parity is a mean of query pixels."""
        return np.asarray(mean, np.float32), np.asarray(std, np.float32)
