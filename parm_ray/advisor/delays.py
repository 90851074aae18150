"""Delays after which hedges might be worth their while, from what calls take.

At zero load a job that is sent again after d seconds takes min(X, d + X'), see `hedging`; here from draws, so
that copies may depend on each other. Under load the delay that was best without it is a candidate among
others; delays count from the start of service, which waiting does not move.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parm_ray.advisor.objective import Objective
from parm_ray.advisor.prediction import Losers
from parm_ray.stats.copies import Service, draw_copies

Seconds = NDArray[np.float64]

# Jobs drawn, and delays tried: quantiles of the service time, close together in the tail.
JOBS = 50_000
GRID = np.unique(np.concatenate([np.linspace(0.02, 0.98, 49), 1 - np.logspace(-3, -1.5, 16)]))

# Of delays whose objective is so close to the least one the longest is taken: it sends fewest hedges.
CLOSE = 0.02

# Two delays are the same one if they differ by less.
APART = 1.08

# Shares of the jobs that may be sent again: one delay is looked for within each.
RATES = (0.05, 0.15, 0.4, 1.0)


@dataclass(frozen=True, slots=True)
class Delay:
    """A delay and, at zero load, the share of jobs that it sends again, server seconds that a job costs, and
    the objective in seconds.
    """

    seconds: float
    rate: float
    cost_s: float
    objective_s: float


def promising_delays(
    x: Service, objective: Objective, losers: Losers, rng: np.random.Generator, most: float = 1.0
) -> list[Delay]:
    """Return a few delays, ascending: for each of `RATES` up to `most` that which makes the objective least,
    and the cheapest. Empty where every call takes the same time.
    """
    pairs = draw_copies(x, rng, (JOBS,), 2)
    first, second = pairs[:, 0], pairs[:, 1]
    delays = np.unique(np.quantile(first, GRID, method="inverted_cdf"))
    # The smallest value of a sample is nobody's delay: everybody but one would be sent again.
    delays = delays[delays < first.max()]
    if not len(delays):
        return []
    scores = np.array([objective.of(np.minimum(first, d + second)) for d in delays])
    found = [
        Delay(float(d), *_cost(first, second, d, losers), float(score))
        for d, score in zip(delays, scores, strict=True)
    ]
    rates = np.array([delay.rate for delay in found])
    chosen: set[int] = set()
    for rate in RATES:
        within = np.flatnonzero(rates <= min(rate, most))
        if len(within):
            good = within[scores[within] <= scores[within].min() * (1 + CLOSE)]
            chosen.add(int(good[-1]))
    allowed = np.flatnonzero(rates <= most)
    if len(allowed):
        chosen.add(int(allowed[np.argmin([found[i].cost_s for i in allowed])]))
    kept: list[Delay] = []
    for index in sorted(chosen):
        if not kept or found[index].seconds > APART * kept[-1].seconds:
            kept.append(found[index])
    return kept


def _cost(first: Seconds, second: Seconds, delay: float, losers: Losers) -> tuple[float, float]:
    """Share of the jobs that are sent again, and server seconds of a job."""
    sent = first > delay
    if losers.cancel_s is None:
        return float(sent.mean()), float(np.mean(first + np.where(sent, second, 0.0)))
    done = np.minimum(first, delay + second)
    work = np.where(sent, 2 * done - delay + losers.cancel_s, first)
    return float(sent.mean()), float(work.mean())
