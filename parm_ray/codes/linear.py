"""Linear encoders: each parity query is a weighted sum of the k queries of a group.

Sum: P = X_1 + ... + X_k (Kosaian, Rashmi, Venkataraman, "Parity Models", SOSP 2019).
Weighted, r > 1: P_l = sum_i c[l, i] X_i with weights that tell the slots apart. One encoder for all
parities would not do: P_1 = X_1 + X_2 is the same when the queries change places, so no model of it
can answer F(X_1) + 2 F(X_2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from parm_ray.codes.base import Array, Batch
from parm_ray.codes.shape import check_count, check_slots, padded
from parm_ray.codes.weights import MAX_K, MAX_R, check_weights, default_weights, row_scales
from parm_ray.core import InvalidInput


def sum_dtype(dtype: np.dtype, lowest: int, highest: int) -> np.dtype:
    """Return the narrowest dtype, no narrower than `dtype`, that holds lowest..highest.

    Unsigned integers stay unsigned unless `lowest` is negative. Floats stay as they are, except
    float16, whose sums would lose what small integers keep: float32.
    Raises InvalidInput naming `slots` if 64 bits are too few.
    """
    if dtype.kind == "f":
        return np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    kind = "u" if dtype.kind == "u" and lowest >= 0 else "i"
    for size in (1, 2, 4, 8):
        info = np.iinfo(f"{kind}{size}")
        if size >= dtype.itemsize and info.min <= lowest and highest <= info.max:
            return info.dtype
    raise InvalidInput("slots", "queries whose weighted sum fits 64 bits", str(dtype))


class _Row(NamedTuple):
    """How to make one parity: its dtype, and each weight in it (None for 1)."""

    dtype: np.dtype
    weights: tuple[Any, ...]


class LinearEncoder:
    """P_l = sum_i c[l, i] X_i. Integer queries and weights give integer parities that never overflow.

    name: what the registry calls it; k: 1..1024 slots; r: 1..8 parities;
    weights: `[r, k]`, default `vandermonde(k, r)`, checked by `check_weights`.
    Raises InvalidInput naming `k`, `r` or `weights`.
    """

    def __init__(self, name: str, k: int, r: int = 1, weights: ArrayLike | None = None) -> None:
        self.name = name
        self.k = check_count("k", k, 1, MAX_K)
        self.r = check_count("r", r, 1, MAX_R)
        given = default_weights(self.k, self.r) if weights is None else weights
        self.weights = check_weights(given, self.k, self.r)
        self.weights.flags.writeable = False
        self._rows: dict[np.dtype, list[_Row]] = {}

    def encode(self, slots: Sequence[Batch], fill: ArrayLike | None = None) -> list[Array]:
        """See `Encoder.encode`. Parity l is `[max b, *shape]` of `parity_dtypes(dtype)[l]`."""
        longest = check_slots(slots, self.k)
        queries = [padded(batch, len(longest), fill, longest) for batch in slots]
        rows = self._rows.get(longest.dtype) or self._plan(longest.dtype)
        return [_weighted_sum(queries, row) for row in rows]

    def parity_dtypes(self, dtype: np.dtype | str | type) -> list[np.dtype]:
        """Return the dtype of each parity for queries of `dtype`.

        Integer queries: the narrowest integers that never overflow, or for weights that are not
        whole float32 (float64 from 32 bits on). Float queries: their own dtype, at least float32.
        """
        return [row.dtype for row in self._plan(np.dtype(dtype))]

    def _plan(self, dtype: np.dtype) -> list[_Row]:
        if dtype not in self._rows:
            self._rows[dtype] = [_plan_row(dtype, weights.tolist()) for weights in self.weights]
        return self._rows[dtype]

    def normalisation(self, row: int, mean: ArrayLike, std: ArrayLike) -> tuple[Array, Array]:
        """Return mean x sum_i c_i and std x sqrt(mean_i c_i^2), so a plain sum has k x mean and std.

        Keeping the std of one query for the sum of k is the paper's choice; other rows are scaled
        so that their inputs have the spread that the sum's have.
        """
        row = check_count("row", row, 0, self.r - 1)
        return (
            np.asarray(mean, np.float32) * np.float32(self.weights[row].sum()),
            np.asarray(std, np.float32) * np.float32(row_scales(self.weights)[row]),
        )


def sum_encoder(k: int) -> LinearEncoder:
    """Return the paper's encoder: one parity, the sum of the k queries."""
    return LinearEncoder("sum", k)


def _plan_row(dtype: np.dtype, weights: list[float]) -> _Row:
    whole = all(weight.is_integer() for weight in weights)
    if dtype.kind == "f":
        target = sum_dtype(dtype, 0, 0)
    elif whole:
        # In Python's integers: float64 would round the ends of a 64-bit range.
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        ends = [sorted((int(weight) * low, int(weight) * high)) for weight in weights]
        target = sum_dtype(dtype, sum(e[0] for e in ends), sum(e[1] for e in ends))
    else:
        target = np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)
    numbers = [int(weight) if target.kind != "f" else weight for weight in weights]
    return _Row(target, tuple(None if number == 1 else target.type(number) for number in numbers))


def _weighted_sum(queries: list[Array], row: _Row) -> Array:
    """Add the narrow queries to the wide total as they are: numpy widens them in blocks that stay in cache.

    Widening each one first is no faster, and arrays of that size, made anew for each query, often come
    fresh from the operating system: first touching their pages costs ten times the additions.
    """
    total: Array | None = None
    scaled: Array | None = None
    for query, weight in zip(queries, row.weights, strict=True):
        if total is None:
            total = query.astype(row.dtype, order="C")
            if weight is not None:
                total *= weight
        elif weight is None:
            total += query
        else:
            scaled = np.empty_like(total) if scaled is None else scaled
            np.copyto(scaled, query)
            scaled *= weight
            total += scaled
    assert total is not None
    return total
