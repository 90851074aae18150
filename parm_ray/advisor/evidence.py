"""What the service times say by themselves, before anything is simulated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parm_ray.stats import Interval
from parm_ray.stats.copies import Paired, Service
from parm_ray.stats.families import Discrete, Empirical
from parm_ray.stats.order import TimeOnTest, gini, time_on_test
from parm_ray.stats.pairs import PairCheck, check_pairs
from parm_ray.stats.tail_shape import LEAST as SHAPE_LEAST
from parm_ray.stats.tail_shape import TailShape, tail_shape
from parm_ray.stats.trust import LEAST, copies_intervals, require_moment

# The shape of a tail is told from so many values at most; more only take time.
SHAPE_MOST, SHAPE_RESAMPLES = 2000, 100


@dataclass(frozen=True, slots=True)
class Evidence:
    """About service times; seconds, and what needs a sample None where a law was given.

    n: values of the sample; where some were cut off it is not looked at further. gini: two copies that stop
    each other cost less than one call iff it is above 1/2. on_test, shape: see `stats.order`,
    `stats.tail_shape`. two_copies: 2 E[least of two] / E[X] as if copies were independent, with an interval
    where there is a sample that allows one. pairs: what measured pairs say of that. heavy: why means or waits
    are not to be trusted, "" = they may be.
    """

    n: int | None
    mean_s: float
    cv2: float
    gini: float
    two_copies: float
    two_copies_interval: Interval | None = None
    on_test: TimeOnTest | None = None
    shape: TailShape | None = None
    pairs: PairCheck | None = None
    heavy: str = ""


def evidence(
    service: Service, rng: np.random.Generator, pairs: NDArray[np.float64] | None = None
) -> Evidence:
    """Look at the law or the sample; pairs: measured ones beside it, `[n, 2]` seconds."""
    if isinstance(service, Paired) and pairs is None:
        pairs = service.pairs
    checked = check_pairs(pairs, rng) if pairs is not None and len(pairs) >= LEAST else None
    sample = _sample(service)
    if sample is None:
        ratio = 2 * service.min_mean(2) / service.mean
        size = service.size if isinstance(service, Discrete) else None
        return Evidence(size, service.mean, service.cv2, 1 - ratio / 2, ratio, pairs=checked)
    part = sample if len(sample) <= SHAPE_MOST else rng.choice(sample, SHAPE_MOST, replace=False)
    interval, heavy = None, ""
    try:
        (found,) = copies_intervals(sample, [2], rng)
        interval = Interval(found.low / service.mean, found.high / service.mean)
        # A mean wait needs the second moment, and an interval of it the fourth: of that nobody asks a sample.
        require_moment(sample, 1, 2)
    except ValueError as error:
        heavy = str(error)
    unequal = gini(sample)
    return Evidence(
        n=len(sample),
        mean_s=service.mean,
        cv2=service.cv2,
        gini=unequal,
        two_copies=2 * (1 - unequal),
        two_copies_interval=interval,
        on_test=time_on_test(sample),
        shape=tail_shape(part, rng, resamples=SHAPE_RESAMPLES) if len(part) >= SHAPE_LEAST else None,
        pairs=checked,
        heavy=heavy,
    )


def _sample(service: Service) -> NDArray[np.float64] | None:
    if isinstance(service, Paired):
        return service.pairs.ravel()
    if isinstance(service, Empirical) and service.size is not None:
        counts = np.rint(service.probabilities * service.size).astype(np.intp)
        return np.repeat(service.values, counts)
    return None
