"""The complementary distribution function of a sample: what a tail looks like on a log plot."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Points = tuple[NDArray[np.float64], NDArray[np.float64]]


def ccdf(values: ArrayLike, failed: int = 0) -> Points:
    """Return (x, share): for each distinct value x, the share of queries that took at least x.

    `failed` queries took for ever: they raise every share and have no x. Shares fall from 1 to at
    least 1/n and are never 0, so both axes may be logarithmic. Between two points the function is a
    step: the share at a latency between two x is that of the larger. Empty arrays for no values.
    Raises ValueError for a negative `failed`.
    """
    if failed < 0:
        raise ValueError(f"failed: expected >= 0, got {failed}")
    ordered = np.sort(np.asarray(values, dtype=np.float64).ravel())
    x, first = np.unique(ordered, return_index=True)
    total = len(ordered) + failed
    return x, (total - first) / total if total else np.empty(0)


def thin(x: NDArray[np.float64], share: NDArray[np.float64], per_decade: int = 200) -> Points:
    """Keep at most about `per_decade` points in each decade of share, and always the last (the worst).

    For plots: the eye needs no more, and the sparse tail is kept whole.
    """
    if per_decade < 1:
        raise ValueError(f"per_decade: expected >= 1, got {per_decade}")
    if not len(x):
        return x, share
    cell = np.floor(np.log10(share) * per_decade)
    keep = np.append(True, np.diff(cell) != 0)
    keep[-1] = True
    return x[keep], share[keep]
