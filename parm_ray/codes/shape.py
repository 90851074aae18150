"""What all encoders ask of their slots, and the alignment of unequal batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from parm_ray.codes.base import Array, Batch
from parm_ray.core import InvalidInput


def check_count(field: str, value: object, low: int, high: int) -> int:
    """Return `value` as an int of low..high. Raises InvalidInput naming `field`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise InvalidInput(field, f"a whole number, {low} to {high}", repr(value))
    return int(value)


def check_slots(slots: Sequence[Batch], k: int) -> Array:
    """Return the longest batch, which gives rows, query shape and dtype of all.

    Raises InvalidInput naming `slots` (not k entries, all None, neither integers nor floats) or
    `slots[i]` (not a batch, or unlike the other slots).
    """
    if len(slots) != k:
        raise InvalidInput("slots", f"{k} entries", len(slots))
    longest: Array | None = None
    for i, batch in enumerate(slots):
        if batch is None:
            continue
        if not isinstance(batch, np.ndarray):
            raise InvalidInput(f"slots[{i}]", "a numpy array or None", type(batch).__name__)
        if batch.ndim < 1 or len(batch) < 1:
            raise InvalidInput(f"slots[{i}]", "a batch [b, ...] with b >= 1", f"shape {batch.shape}")
        if longest is None:
            longest, shape, dtype = batch, batch.shape[1:], batch.dtype
            continue
        if batch.shape[1:] != shape or batch.dtype != dtype:
            expected = f"{dtype} queries of shape {shape} like the other slots"
            raise InvalidInput(f"slots[{i}]", expected, f"{batch.dtype} {batch.shape[1:]}")
        if len(batch) > len(longest):
            longest = batch
    if longest is None:
        raise InvalidInput("slots", "at least one batch", "only empty slots")
    if longest.dtype.kind not in "uif":
        raise InvalidInput("slots", "integer or float queries", str(longest.dtype))
    return longest


def fill_row(fill: ArrayLike | None, like: Array) -> Array:
    """Return the fill as one query of `like`'s per-query shape and dtype (a read-only view).

    Integer queries get the fill rounded half to even. Raises InvalidInput naming `fill` if it does
    not broadcast to a query or lies outside an integer dtype's range.
    """
    shape, dtype = like.shape[1:], like.dtype
    try:
        values = np.asarray(0 if fill is None else fill)
    except ValueError:
        raise InvalidInput("fill", f"something that broadcasts to {shape}", "a ragged sequence") from None
    if values.dtype.kind not in "uifb":
        raise InvalidInput("fill", "numbers", f"{values.dtype}")
    if dtype.kind in "ui":
        info = np.iinfo(dtype)
        values = np.rint(values) if values.dtype.kind == "f" else values
        # As Python numbers: float64 would round the ends of a 64-bit range.
        if values.size and not (info.min <= values.min().item() and values.max().item() <= info.max):
            raise InvalidInput("fill", f"values of {dtype} ({info.min} to {info.max})", str(fill))
    try:
        return np.broadcast_to(values.astype(dtype), shape)
    except ValueError:
        raise InvalidInput("fill", f"something that broadcasts to {shape}", f"shape {values.shape}") from None


def padded(batch: Batch, rows: int, fill: ArrayLike | None, like: Array) -> Array:
    """Return the batch with `rows` rows, absent ones holding the fill; the batch itself if complete."""
    have = 0 if batch is None else len(batch)
    if batch is not None and have == rows:
        return batch
    out = np.empty((rows, *like.shape[1:]), like.dtype)
    if batch is not None:
        out[:have] = batch
    out[have:] = fill_row(fill, like)
    return out
