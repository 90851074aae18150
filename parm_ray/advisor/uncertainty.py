"""How far a prediction may be off because it was made from a sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.advisor.prediction import Prediction
from parm_ray.stats import Interval, bootstrap_interval, percentile
from parm_ray.stats.families import Empirical, Family
from parm_ray.stats.trust import RESAMPLES, require_moment, require_size


@dataclass(frozen=True, slots=True)
class PredictionIntervals:
    """A prediction from a sample and bootstrap intervals of both of its figures, seconds.

    The upper end of the latency is inf if that many resamples make the setting unstable.
    """

    prediction: Prediction
    latency_s: Interval
    cost_s: Interval


def prediction_intervals(
    sample: ArrayLike,
    predict: Callable[[Family], Prediction],
    rng: np.random.Generator,
    *,
    copies: int = 1,
    power: float = 4,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    block: int = 1,
) -> PredictionIntervals:
    """Return what `predict` says of the sample `[n]`, seconds, and of resamples of it.

    copies, power: the least of so many copies must have moments of this order, as far as the sample's tail
    tells: 4 where E[X_{1:r}^2] is used (a wait in a queue), 2 for means alone. block: see
    `bootstrap_interval`. What the sample has not seen no interval knows of. Raises ValueError for a sample
    of fewer than `trust.LEAST` values, or one with too heavy a tail.
    """
    require_size(sample)
    require_moment(sample, copies, power)
    costs: list[float] = []

    def latency(values: NDArray[np.float64]) -> float:
        # Both figures of the same resample: the second is noted on the way.
        found = predict(Empirical(values))
        costs.append(found.cost_s)
        return found.latency_s

    latencies = bootstrap_interval(sample, latency, rng, level=level, resamples=resamples, block=block)
    tail = (1 - level) / 2
    cost = Interval(percentile(costs, max(tail, 1 / resamples)), percentile(costs, 1 - tail))
    return PredictionIntervals(predict(Empirical(sample)), latencies, cost)
