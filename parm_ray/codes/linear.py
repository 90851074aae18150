"""Linear encoders: each parity query is a weighted sum of the k queries of a group.

Sum: P = X_1 + ... + X_k (Kosaian, Rashmi, Venkataraman, "Parity Models", SOSP 2019, section 4.1).
Weighted, r > 1: P_l = sum_i c[l, i] X_i with weights that tell the slots apart. One encoder for all
parities would not do: P_1 = X_1 + X_2 is the same when the queries change places, so no model of it
can answer F(X_1) + 2 F(X_2).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.codes.shape import Array, Batch, check_count, check_slots, padded
from parm_ray.core import InvalidInput

MAX_K, MAX_R = 257, 8
# Above this an erasure pattern multiplies the parity models' errors more than anyone can use.
MAX_CONDITION = 1e4

Weights = NDArray[np.float64]


def vandermonde(k: int, r: int) -> Weights:
    """Integer weights c[l, i] = (i + 1)^l, `[r, k]`: row 0 is the plain sum, row 1 is 1, 2, 3, ..."""
    return np.vander(np.arange(1, k + 1), r, increasing=True).T.astype(np.float64)


def check_weights(weights: ArrayLike, k: int, r: int) -> Weights:
    """Return `[r, k]` weights that decode any k of k + r. Raises InvalidInput naming `weights`."""
    matrix = np.asarray(weights, np.float64)
    if matrix.shape != (r, k) or not np.isfinite(matrix).all():
        raise InvalidInput("weights", f"a finite matrix of shape ({r}, {k})", f"shape {matrix.shape}")
    for lost in range(1, min(r, k) + 1):
        for rows in combinations(range(r), lost):
            for slots in combinations(range(k), lost):
                condition = np.linalg.cond(matrix[np.ix_(rows, slots)])
                if not condition < MAX_CONDITION:
                    raise InvalidInput(
                        "weights",
                        f"every square part to have a condition number below {MAX_CONDITION:.0e}",
                        f"{condition:.1e} for parities {rows} and slots {slots}",
                    )
    return matrix


def sum_dtype(dtype: np.dtype, lowest: float, highest: float) -> np.dtype:
    """The narrowest dtype of the same kind that holds values of lowest..highest without overflow.

    Floats stay as they are, except float16, whose sums would lose what small integers keep.
    """
    if dtype.kind == "f":
        return np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    kind = "u" if dtype.kind == "u" and lowest >= 0 else "i"
    for bits in (8, 16, 32, 64):
        candidate = np.dtype(f"{'uint' if kind == 'u' else 'int'}{bits}")
        info = np.iinfo(candidate)
        if candidate.itemsize >= dtype.itemsize and info.min <= lowest and highest <= info.max:
            return candidate
    raise InvalidInput("slots", "queries whose weighted sum fits 64 bits", str(dtype))


class LinearEncoder:
    """P_l = sum_i c[l, i] X_i. Integer queries and weights give integer parities that never overflow.

    weights: `[r, k]`, default `vandermonde(k, r)`.
    """

    def __init__(self, name: str, k: int, r: int, weights: ArrayLike | None = None) -> None:
        self.name = name
        self.k = check_count("k", k, 1, MAX_K)
        self.r = check_count("r", r, 1, MAX_R)
        self.weights = check_weights(vandermonde(k, r) if weights is None else weights, self.k, self.r)
        self._whole = bool((self.weights == np.rint(self.weights)).all())
        self._dtypes: dict[np.dtype, list[np.dtype]] = {}

    def encode(self, slots: Sequence[Batch], fill: ArrayLike | None = None) -> list[Array]:
        """See `Encoder.encode`. Parities are `[max b, *shape]` of `parity_dtypes(dtype)`."""
        slots, longest = check_slots(slots, self.k)
        queries = [padded(batch, len(longest), fill, longest) for batch in slots]
        return [
            self._row(queries, weights, dtype)
            for weights, dtype in zip(self.weights, self.parity_dtypes(longest.dtype), strict=True)
        ]

    @staticmethod
    def _row(queries: list[Array], weights: Weights, dtype: np.dtype) -> Array:
        out = np.empty(queries[0].shape, dtype)
        started = False
        scratch = np.empty_like(out) if len(queries) > 1 else out
        for query, weight in zip(queries, weights, strict=True):
            # Widen first, then add like to like: numpy's mixed-dtype loops are several times slower.
            term = scratch if started else out
            np.copyto(term, query, casting="unsafe")
            if weight != 1:
                term *= dtype.type(weight)
            if started:
                out += term
            started = True
        return out

    def parity_dtypes(self, dtype: np.dtype) -> list[np.dtype]:
        """Dtype of each parity row for queries of `dtype`."""
        dtype = np.dtype(dtype)
        if dtype not in self._dtypes:
            self._dtypes[dtype] = [self._parity_dtype(dtype, weights) for weights in self.weights]
        return self._dtypes[dtype]

    def _parity_dtype(self, dtype: np.dtype, weights: Weights) -> np.dtype:
        if dtype.kind != "f" and not self._whole:
            return np.dtype(np.float32) if dtype.itemsize <= 2 else np.dtype(np.float64)
        if dtype.kind == "f":
            return sum_dtype(dtype, 0, 0)
        info = np.iinfo(dtype)
        ends = np.stack([weights * float(info.min), weights * float(info.max)])
        return sum_dtype(dtype, float(ends.min(0).sum()), float(ends.max(0).sum()))

    def normalisation(self, row: int, mean: ArrayLike, std: ArrayLike) -> tuple[Array, Array]:
        """Mean x sum_i c_i and std x sqrt(mean_i c_i^2): a plain sum has k x mean and std as it is.

        Keeping the std of one query for the sum of k is the paper's choice; other rows are scaled
        so that their inputs have the spread that the sum's have.
        """
        weights = self.weights[row]
        scale = float(np.sqrt(np.mean(weights**2)))
        return (
            np.asarray(mean, np.float32) * np.float32(weights.sum()),
            np.asarray(std, np.float32) * np.float32(scale),
        )


def sum_encoder(k: int) -> LinearEncoder:
    """The paper's encoder: one parity, the sum of the k queries."""
    return LinearEncoder("sum", k, 1, np.ones((1, k)))
