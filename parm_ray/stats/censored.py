"""Service times of which some are known only to be at least so long: the losers of a race."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from parm_ray.stats.families import Discrete


def kaplan_meier(times: ArrayLike, observed: ArrayLike, *, close: bool = False) -> Discrete:
    """Return the law of X that the product-limit estimate gives (Kaplan and Meier, 1958).

    times: seconds, `[n]`; observed: `[n]`, False where a call was cancelled or given up after that time, so
    that all that is known is X > time. Right if when a call was cancelled says nothing of how long it would
    have taken: true of the loser against an independent copy, not of calls that share their size. The largest
    times, if censored, leave the tail open: then ValueError, or with close=True the longest call is taken to
    have ended there (Efron, 1967), which makes means too small. ValueError, too, for no observed call.
    """
    x = np.asarray(times, dtype=np.float64).ravel()
    ended = np.asarray(observed, dtype=bool).ravel()
    if len(x) != len(ended):
        raise ValueError(f"observed: expected {len(x)} of them, as many as times, got {len(ended)}")
    if not np.any(ended):
        raise ValueError("observed: expected at least one call that ended, got none")
    if not np.all(np.isfinite(x) & (x >= 0)):
        raise ValueError("times: expected finite numbers >= 0")
    at = np.unique(x)
    deaths = np.bincount(np.searchsorted(at, x[ended]), minlength=len(at))
    risk = len(x) - np.searchsorted(np.sort(x), at, side="left")
    tail = np.cumprod(1 - deaths / risk)
    if tail[-1] > 0:
        if not close:
            raise ValueError(
                f"times: the longest, {at[-1]:g}, was cut off, and {tail[-1]:.1%} of the calls take longer: "
                "let some calls run to their end, or pass close=True for a lower bound"
            )
        tail[-1] = 0.0
    return Discrete(at, -np.diff(tail, prepend=1.0), len(x))
