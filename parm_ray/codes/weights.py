"""Weights of linear codes, `[r, k]`, and whether they decode every loss that they promise to.

Parity l is sum_i c[l, i] F(X_i). Losing m slots and having m parities leaves an m x m system, so a
code recovers any m <= r losses exactly if every m x m part of the weights is invertible, and usefully
if no inverse multiplies the parity models' errors too much: the *error gain*.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.core import InvalidInput

Weights = NDArray[np.float64]

MAX_K, MAX_R = 1024, 8
# A reconstruction with a hundred times the error of a plain sum's answers nobody's query.
MAX_GAIN = 100.0
# Checking a pattern takes some ten microseconds and is done once, when the code is made.
MAX_PATTERNS = 20_000
# The largest k whose default weights keep to MAX_GAIN, by r; a test holds it true.
VANDERMONDE_MAX_K = {1: MAX_K, 2: 86, 3: 8, 4: 4, 5: 3, 6: 2, 7: 2, 8: 1}


def vandermonde(k: int, r: int) -> Weights:
    """Return integer weights c[l, i] = (i + 1)^l, `[r, k]`: row 0 is the plain sum, row 1 is 1, 2, 3...

    The rows that the paper sketches for r > 1 (Kosaian, Rashmi, Venkataraman, "Parity Models", SOSP 2019).
    """
    return np.vander(np.arange(1, k + 1), r, increasing=True).T.astype(np.float64)


def row_scales(weights: Weights) -> NDArray[np.float64]:
    """Return `[r]`, sqrt(mean_i c[l, i]^2): how large parity l is beside the plain sum's."""
    scales: NDArray[np.float64] = np.sqrt(np.mean(weights**2, axis=1))
    return scales


def error_gains(weights: Weights, rows: tuple[int, ...]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return every set of `len(rows)` lost slots, `[n, m]`, and its gain when `rows` answer, `[n]`.

    The gain is the largest root-mean-square error of a decoded output, where parity l errs by
    independent noise as large as `row_scales(weights)[l]`; inf or nan if the system is singular.
    A plain sum's gain is 1.
    """
    lost = np.array(list(combinations(range(weights.shape[1]), len(rows))))
    systems = weights[list(rows)][:, lost].transpose(1, 0, 2)
    left, singular, right = np.linalg.svd(systems)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inverse = (right.swapaxes(1, 2) / singular[:, None, :]) @ left.swapaxes(1, 2)
        errors = np.sqrt(np.sum((inverse * row_scales(weights)[list(rows)]) ** 2, axis=2))
    return lost, errors.max(axis=1)


def check_weights(weights: ArrayLike, k: int, r: int) -> Weights:
    """Return `weights` as float64 `[r, k]` once they are known to decode any k of k + r.

    Raises InvalidInput naming `weights`: not finite numbers of that shape, more than MAX_PATTERNS
    patterns of losses to check, or a pattern with an error gain above MAX_GAIN.
    """
    try:
        matrix = np.array(weights, np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("weights", f"a matrix of shape ({r}, {k})", repr(weights)) from None
    if matrix.shape != (r, k):
        raise InvalidInput("weights", f"a matrix of shape ({r}, {k})", f"shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise InvalidInput("weights", "finite numbers", "nan or inf")
    if comb(k + r, r) > MAX_PATTERNS:
        raise InvalidInput("weights", f"at most {MAX_PATTERNS} patterns of losses", comb(k + r, r))
    for m in range(1, min(r, k) + 1):
        for rows in combinations(range(r), m):
            lost, gains = error_gains(matrix, rows)
            bad = np.flatnonzero(~(gains <= MAX_GAIN))  # nan is bad too
            if bad.size:
                slots, gain = lost[bad[0]].tolist(), gains[bad[0]]
                raise InvalidInput(
                    "weights",
                    f"an error gain of at most {MAX_GAIN:g} for every loss",
                    f"{gain:.3g} for slots {slots} lost and parities {list(rows)} answered",
                )
    return matrix


def default_weights(k: int, r: int) -> Weights:
    """Return `vandermonde(k, r)`. Raises InvalidInput naming `k` if it would decode too badly."""
    highest = VANDERMONDE_MAX_K[r]
    if k > highest:
        expected = f"1 to {highest} with the default weights at r = {r} (or give `weights`)"
        raise InvalidInput("k", expected, k)
    return vandermonde(k, r)
