"""Jobs that need k of n copies, k > 1: bounds of the latency, and how the cost moves with the load.

(n, k) fork-join: a job is forked to all n servers and done when k of its tasks have finished; the others are
then cancelled at no cost. There is no closed form for 1 < k. All raise ValueError for k outside 1..n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from parm_ray.advisor.forking import pollaczek_khinchine
from parm_ray.advisor.prediction import Bounds, Prediction, arrivals, whole
from parm_ray.stats.families import Exponential, Family

Direction = Literal["constant", "falls", "rises", "unknown"]


@dataclass(frozen=True, slots=True)
class ForkJoinCost:
    """E[C] of (n, k) fork-join, in server seconds.

    at_zero_load: when all n tasks start together. bounds: between which it lies at every load; None where
    the shape of the tail says nothing. with_load: where it moves from `at_zero_load` as queues get long.
    """

    at_zero_load: float
    bounds: Bounds | None
    with_load: Direction


def fork_join_latency(x: Family, n: int, k: int, rate: float) -> Bounds:
    """Return a lower and an upper bound of E[T], seconds.

    Upper: split-merge, where no task of a job starts before the job before it is done: M/G/1 with X_{k:n}.
    It is inf from rate 1 / E[X_{k:n}] on, where fork-join itself may be stable. Lower: the wait of (n, 1),
    which leaves the servers sooner, and E[X_{k:n}]; for exponential times the larger of it and the sum over
    j < k of 1 / ((n-j) mu - rate), in which each of k stages is a queue of its own; inf where the least
    possible cost exceeds what n servers have. The two are equal for k = 1.
    """
    whole("k", k, 1, n)
    arrivals(rate)
    service = x.order_mean(k, n)
    first = x.min_mean(n)
    low = service - first + pollaczek_khinchine(rate, first, x.min_second_moment(n))
    if isinstance(x, Exponential) and rate < (n - k + 1) * x.rate:
        low = max(low, sum(1 / ((n - j) * x.rate - rate) for j in range(k)))
    cost = fork_join_cost(x, n, k).bounds
    if cost is not None and rate * cost.low >= n:
        low = math.inf
    return Bounds(low, pollaczek_khinchine(rate, service, x.order_second_moment(k, n)))


def fork_join_cost(x: Family, n: int, k: int) -> ForkJoinCost:
    """Return E[C] at zero load, C0 = sum of E[X_{i:n}] for i <= k plus (n-k) E[X_{k:n}], and how it moves.

    k = 1: the queues move in step, n E[X_{1:n}] at any load; k = n: nothing is cancelled, n E[X]. Between
    them tasks start apart as the load grows: with a log-concave tail E[C] falls from C0 towards k E[X],
    never below; with a log-convex one it rises from C0, never above; an exponential has k E[X] throughout.
    """
    whole("k", k, 1, n)
    start = sum(x.order_mean(i, n) for i in range(1, k + 1)) + (n - k) * x.order_mean(k, n)
    alone = k * x.mean
    if k in (1, n) or x.log_tail == "both":
        return ForkJoinCost(start, Bounds(start, start), "constant")
    if x.log_tail == "neither":
        return ForkJoinCost(start, None, "unknown")
    low, high = sorted((start, alone))
    return ForkJoinCost(start, Bounds(low, high), "falls" if x.log_tail == "concave" else "rises")


def coded_pieces(x: Family, n: int, k: int) -> Prediction:
    """A job of k pieces, coded (MDS) into n: any k of the n results give it. At zero load.

    x: the service time of one piece. E[T] = E[X_{k:n}]; E[C] as in `fork_join_cost`.
    """
    cost = fork_join_cost(x, n, k)
    return Prediction(n, x.order_mean(k, n), cost.at_zero_load, "at zero load", "at zero load")


def copied_pieces(x: Family, pieces: int, copies: int) -> Prediction:
    """A job of `pieces` pieces, each at `copies` servers; done when of each piece one copy is. At zero load.

    E[T] = E of the largest of `pieces` minima of `copies`; losers are cancelled at once.
    """
    whole("pieces", pieces, 1)
    whole("copies", copies, 1)
    latency = x.integral(lambda t: 1 - (1 - x.survival(t) ** copies) ** pieces)
    cost = pieces * copies * x.min_mean(copies)
    return Prediction(pieces * copies, latency, cost, "at zero load", "at zero load")
