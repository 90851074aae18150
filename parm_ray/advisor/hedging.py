"""One more copy of a call that has run for d seconds: latency and cost at zero load.

X and X' are independent service times. Dean and Barroso, "The tail at scale", CACM 56(2), 2013.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.advisor.prediction import FREE, Losers, Prediction, whole
from parm_ray.stats.families import Family


def hedge_survival(x: Family, delay_s: float, t: ArrayLike) -> NDArray[np.float64]:
    """Return P(min(X, d + X') > t) = S(t) S(t - d) at each of `t` seconds."""
    _delay(delay_s)
    time = np.asarray(t, dtype=np.float64)
    tail: NDArray[np.float64] = x.survival(time) * np.where(
        time < delay_s, 1.0, x.survival(np.maximum(time - delay_s, 0))
    )
    return tail


def hedge_rate(x: Family, delay_s: float) -> float:
    """Return the share of jobs for which a second copy is sent: S(d)."""
    _delay(delay_s)
    return float(x.survival(delay_s))


def hedge(x: Family, servers: int, delay_s: float, losers: Losers = FREE) -> Prediction:
    """Mean latency and cost of a job that is sent again, to another server, after `delay_s` seconds.

    E[T] = the integral of S up to d plus that of S(t) S(t-d) from d on. Each moment of the latter has two
    servers at work: E[C] counts it twice, and adds S(d) cancel_s for the loser. Where losers run to their end
    E[C] = E[X] (1 + S(d)). All of it when no copy waits; waiting calls that are hedged feed on themselves
    (without cancelling, a fleet that is half busy can stay overloaded). Raises ValueError for delay_s < 0.
    """
    whole("servers", servers, 1)
    _delay(delay_s)
    sent = hedge_rate(x, delay_s)
    alone = x.integral(x.survival, stop=delay_s) if delay_s else 0.0
    moved = [delay_s + t for t in x.knots]
    both = x.integral(lambda t: hedge_survival(x, delay_s, t), start=delay_s, bends=moved)
    cost = x.mean * (1 + sent) if losers.cancel_s is None else alone + 2 * both + sent * losers.cancel_s
    return Prediction(servers, alone + both, cost, "at zero load", "at zero load")


def _delay(seconds: float) -> None:
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"delay_s: expected seconds >= 0, got {seconds!r}")
