"""How far a reconstruction's confidence can be trusted, and what is gained by asking it first.

Confidence is the largest softmax share of an answer's logits, or the largest of an answer that is
probabilities already. Both measures are for classes alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
GatePoint = tuple[float, float, float | None]
"""(threshold, share of answers kept, accuracy of those kept; None = none was)."""

BINS = 15
THRESHOLDS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)


def confidence(outputs: NDArray[Any], probabilities: bool = False) -> Floats:
    """Map answers `[n, classes]` to the largest softmax share of each, float64 `[n]` in 0..1.

    probabilities: the answers are no logits; of a difference of probabilities the largest is cut to 0..1.
    """
    if probabilities:
        return outputs.max(axis=-1).astype(np.float64).clip(0, 1)
    shifted = outputs.astype(np.float64) - outputs.max(axis=-1, keepdims=True)
    shares: Floats = 1.0 / np.exp(shifted).sum(axis=-1)  # the largest is exp(0) = 1
    return shares


def calibration_error(confident: Floats, right: NDArray[np.generic], bins: int = BINS) -> float:
    """Return the expected calibration error, 0..1: sum over bins of share x |accuracy - confidence|.

    confident: float64 `[n]` in 0..1; right: `[n]`, 1 where the answer was right; bins of equal width,
    open below (Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks", ICML 2017).
    """
    which = np.clip(np.ceil(confident * bins).astype(np.int64) - 1, 0, bins - 1)
    gaps = np.bincount(which, weights=right.astype(np.float64) - confident, minlength=bins)
    return float(np.abs(gaps).sum() / len(confident))


def gate(confident: Floats, right: NDArray[np.generic]) -> list[GatePoint]:
    """Return coverage against accuracy: what is kept, and how good it is, at each of THRESHOLDS.

    Arguments as for `calibration_error`. A front end that hands out a reconstruction only from a
    threshold on, and waits for the original otherwise, is at that point.
    """
    points: list[GatePoint] = []
    for threshold in THRESHOLDS:
        kept = confident >= threshold
        accuracy = float(right[kept].mean()) if kept.any() else None
        points.append((threshold, float(kept.mean()), accuracy))
    return points
