"""An engine's profile from what was measured: how long requests took, at which load."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.routing.fleet.latency import Profile, rising

Array = NDArray[np.float64]


def fit_profile(loads: ArrayLike, seconds: ArrayLike, pieces: int = 8) -> Profile:
    """Return the profile of noisy points: latency that never falls, total delay that is convex in the load.

    loads: requests per second; seconds: the mean latency seen at each; any order, one load may be there more
    than once. pieces: at most so many stretches, of equally many points each. Latencies are made rising by
    pooling neighbours that fall (least squares); `Profile` then does the same with the slopes of the totals.
    What was not measured below the lightest load takes as long as there. Raises ValueError for fewer than two
    loads, and for numbers that are not positive.
    """
    x, y = np.asarray(loads, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"seconds: expected one for each load, got {y.shape} for {x.shape}")
    for name, values in (("loads", x), ("seconds", y)):
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise ValueError(f"{name}: expected positive numbers, got {values.tolist()}")
    if pieces < 1:
        raise ValueError(f"pieces: expected >= 1, got {pieces}")
    points, at = np.unique(x, return_inverse=True)
    if len(points) < 2:
        raise ValueError(f"loads: expected two or more that differ, got {points.tolist()}")
    counts = np.bincount(at).astype(np.float64)
    means = np.bincount(at, y) / counts
    parts = np.array_split(np.arange(len(points)), min(pieces, len(points)))
    weights = [float(counts[part].sum()) for part in parts]
    knots = [float(np.average(points[part], weights=counts[part])) for part in parts]
    level = list(rising([float(np.average(means[p], weights=counts[p])) for p in parts], weights))
    if knots[-1] < points[-1]:
        # The profile ends where measurements do; the last stretch's slope carries on to there.
        slope = (level[-1] - level[-2]) / (knots[-1] - knots[-2]) if len(knots) > 1 else 0.0
        level.append(level[-1] + slope * float(points[-1] - knots[-1]))
        knots.append(float(points[-1]))
    return Profile((0.0, *knots), (level[0], *level))
