"""Groups of k queries with r parity queries: ParM's latency and capacity.

A query is done when its own prediction is there, or when it can be reconstructed:
- by subtraction, from any k of the k - 1 + r other answers of its group (Kosaian, Rashmi and Venkataraman,
  "Parity models", SOSP 2019);
- by slot: the parity model has an answer for each slot, so that one parity answer is enough and no other
  query of the group is needed.

All queries of a group and its parities are taken to start together, and no call to be cancelled: the figures
are for servers that are mostly idle, and leave out how long a group waits to be full.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, comb

from parm_ray.advisor.prediction import Prediction, whole
from parm_ray.stats.families import Bimodal, Family

Decoding = Literal["subtraction", "slot"]
DECODINGS: tuple[str, ...] = get_args(Decoding)


def parity_survival(
    x: Family, k: int, r: int, t: ArrayLike, decoding: Decoding = "subtraction", parity: Family | None = None
) -> NDArray[np.float64]:
    """Return P(T > t), at each of `t` seconds, of a query in a group of k with r parities.

    x: a query's service time; parity: that of a parity query, None = as x. Slot: S(t) S_parity(t)^r.
    Subtraction: S(t) times P(fewer than k of the others are there); with r = 1 this is S(t) (1 - F(t)^k).
    Raises ValueError for k or r < 1, or an unknown decoding.
    """
    whole("k", k, 1)
    whole("r", r, 1)
    if decoding not in DECODINGS:
        raise ValueError(f"decoding: expected one of {DECODINGS}, got {decoding!r}")
    own = x.survival(t)
    late = own if parity is None else parity.survival(t)
    if decoding == "slot":
        return own * late**r
    missing: NDArray[np.float64] = np.zeros_like(own)
    for there in range(k):
        others = comb(k - 1, there) * (1 - own) ** there * own ** (k - 1 - there)
        # P(at most k - 1 - there of r parities are there); all are counted once that reaches r.
        few = bdtr(k - 1 - there, r, 1 - late) if k - 1 - there < r else 1.0
        missing = missing + others * few
    return own * missing


def coded_group(
    x: Family,
    servers: int,
    k: int,
    r: int,
    decoding: Decoding = "subtraction",
    parity: Family | None = None,
) -> Prediction:
    """Mean latency at zero load, and cost per query (nothing is cancelled): E[X] + r E[X_parity] / k.

    The cost, and with it the capacity n k / ((k + r) E[X]), is exact. Arguments as in `parity_survival`.
    """
    whole("servers", servers, 1)
    extra = (parity or x).knots
    latency = x.integral(
        lambda t: parity_survival(x, k, r, t, decoding, parity), bends=() if parity is None else extra
    )
    cost = x.mean + r * (parity or x).mean / k
    return Prediction(servers, latency, cost, "at zero load", "exact")


def unanswered_share(slow: float, k: int, r: int, decoding: Decoding = "subtraction") -> float:
    """Return the share of queries that are late although protected; a call is with probability `slow`.

    slow (1 - (1 - slow)^k) for r = 1 by subtraction, about k slow^2; slow^(r+1) by slot.
    """
    return float(parity_survival(Bimodal(0.0, 1.0, slow), k, r, 0.5, decoding))
