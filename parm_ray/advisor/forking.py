"""Copies of a job at several servers, one of which has to finish: latency and cost in closed form.

n servers, each first come, first served; jobs come as a Poisson process of `rate` per second, all servers
together; service times X of copies are independent, or share a size (`SizeSlowdown`) where a function says
`Service`. m1 = E[X_{1:r}] and m2 = E[X_{1:r}^2] are the moments of
the least of r. Joshi, Soljanin and Wornell, "Efficient redundancy techniques for latency reduction in cloud
systems", ACM TOMPECS 2(2), 2017. All raise ValueError for arguments that are out of range.
"""

from __future__ import annotations

import math

from scipy.special import gammaln

from parm_ray.advisor.prediction import FREE, Losers, Prediction, arrivals, whole
from parm_ray.routing.fleet import MGc
from parm_ray.stats.copies import Service
from parm_ray.stats.families import Exponential


def pollaczek_khinchine(rate: float, m1: float, m2: float) -> float:
    """Return E[T] of M/G/1, service of moments m1 and m2: m1 + rate m2 / (2 (1 - rate m1))."""
    return m1 + _wait(rate, m1, m2)


def full_fork(x: Service, servers: int, rate: float, losers: Losers = FREE) -> Prediction:
    """(n, 1) fork-join: a copy at every server, the first that finishes counts. See `groups`, with r = n."""
    return groups(x, servers, servers, rate, losers)


def groups(x: Service, servers: int, copies: int, rate: float, losers: Losers = FREE) -> Prediction:
    """(n, r, 1) with disjoint groups: copies at the r servers of one of n / r groups, drawn at random.

    With losers that stop at once the servers of a group move in step: M/G/1 with the least of r, exactly;
    E[C] = r m1.

    With cancel_s = c > 0 the winner's server is free before the others. The latency given is that of a group
    that waits for all of them, which can only be later: an upper bound. E[C] = r m1 + (r-1) c holds at zero
    load (less where copies may end in the same moment); with load copies start apart, and some are cancelled
    while they wait, at no cost.

    Losers that run to their end: E[C] = r E[X] if all of them start. The latency of one server by itself,
    M/G/1 with X, bounds that of the first of r from above.
    """
    whole("servers", servers, 1)
    whole("copies", copies, 1, servers)
    if servers % copies:
        raise ValueError(f"copies: expected a divisor of {servers} servers, got {copies}")
    arrivals(rate)
    each = rate * copies / servers
    m1, m2 = x.min_mean(copies), x.min_second_moment(copies)
    if copies == 1 or losers.cancel_s == 0:
        return Prediction(servers, pollaczek_khinchine(each, m1, m2), copies * m1)
    if losers.cancel_s is None:
        one = pollaczek_khinchine(each, x.mean, x.second_moment)
        return Prediction(servers, one, copies * x.mean, "upper bound")
    c = losers.cancel_s
    held = _wait(each, m1 + c, m2 + 2 * c * m1 + c**2)
    cost = copies * m1 + (copies - 1) * c
    return Prediction(servers, m1 + held, cost, "upper bound", "at zero load")


def random_fork(x: Exponential, servers: int, copies: int, rate: float) -> Prediction:
    """(n, d, 1) with d of n servers drawn at random for each job; exponential service alone, exact.

    E[T] = sum over i = d..n of 1 / (n mu C(n-1,d-1) / C(i-1,d-1) - rate): Gardner, Harchol-Balter,
    Scheller-Wolf, Velednitsky and Zbarsky, "Redundancy-d", Operations Research 65(4), 2017.
    """
    if not isinstance(x, Exponential):
        raise ValueError(f"x: expected an exponential time, got {type(x).__name__}")
    whole("servers", servers, 1)
    whole("copies", copies, 1, servers)
    arrivals(rate)
    if rate >= servers * x.rate:
        return Prediction(servers, math.inf, x.mean)
    latency = 0.0
    for i in range(copies, servers + 1):
        # C(n-1,d-1) / C(i-1,d-1), by logarithms: the binomials themselves overflow.
        ratio = gammaln(servers) - gammaln(servers - copies + 1) - gammaln(i) + gammaln(i - copies + 1)
        latency += 1 / (servers * x.rate * math.exp(ratio) - rate)
    return Prediction(servers, latency, x.mean)


def early_cancel(x: Service, servers: int, rate: float) -> Prediction:
    """(n, 1) fork-early-cancel: a copy in every queue, all but the first that starts are withdrawn.

    One queue for n servers, M/G/n. Exact for exponential times (Erlang C); else waiting is that of M/M/n
    times (1 + cv^2) / 2, an approximation (Lee and Longton, 1959) that is inf where E[X^2] is, although many
    servers may wait a finite time then. No copy but one is ever served: E[C] = E[X],
    whatever it costs to cancel.
    """
    whole("servers", servers, 1)
    arrivals(rate)
    exact = isinstance(x, Exponential)
    if rate == 0:
        return Prediction(servers, x.mean, x.mean)
    if not rate * x.mean < servers:
        return Prediction(servers, math.inf, x.mean)
    latency = MGc(servers / x.mean, servers, x.cv2).total(rate) / rate if math.isfinite(x.cv2) else math.inf
    return Prediction(servers, latency, x.mean, "exact" if exact else "approximation")


def _wait(rate: float, m1: float, m2: float) -> float:
    if rate == 0:
        return 0.0
    return rate * m2 / (2 * (1 - rate * m1)) if rate * m1 < 1 else math.inf
