"""Whether a sample's log tail is concave, convex or neither, and from which age on it is convex.

The log of a tail with a rising hazard rate is concave, of one with a falling rate convex. The empirical log
tail is compared with its least concave majorant and its greatest convex minorant: the distance is small for
the one that it is, up to chance. Chance is what exponential samples of the same size show: their log tail is
straight, so that of all concave (convex) ones it keeps closest to being the other. (Fitting the majorant and
sampling from it, as Hall and Van Keilegom do in "Testing for monotone increasing hazard rate", Annals of
Statistics 33(3), 2005, refused 11 to 16 % of exponential and shifted exponential samples of 200 to 500 values
at a nominal 5 %: the majorant follows the sample's own accidents. This refuses 5 to 9 %.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.stats.families import LogTail
from parm_ray.stats.order import ascending

Points = NDArray[np.float64]

# Points at which the two curves are compared, and values beyond the last of them: the log of a tail of fewer
# values is noise.
GRID, BEYOND = 120, 5

# The share of its time over which a jump of the tail is spread.
NARROW = 1e-9

# Below so many values no shape is told.
LEAST = 100

# Ages that are tried as the beginning of a convex tail: these shares of the sample are younger.
YOUNGER = tuple(np.arange(0.0, 0.95, 0.05).tolist())


@dataclass(frozen=True, slots=True)
class TailShape:
    """What the sample's tail is like.

    verdict: "concave", "convex", "neither", or "both" if neither of them can be refused, as for exponential
    times and for samples that are too small. p_concave, p_convex: how often an exponential sample is as far
    from that shape as this one; below `alpha` the shape is refused. convex_after_s: the least age, seconds,
    from which on a convex tail is not refused: 0 where it is not from the start; None where the whole is
    concave, or if there is none with `LEAST` values left.
    """

    verdict: LogTail
    p_concave: float
    p_convex: float
    convex_after_s: float | None


def tail_shape(
    sample: ArrayLike, rng: np.random.Generator, *, alpha: float = 0.05, resamples: int = 200
) -> TailShape:
    """Judge the shape of the tail of `sample` `[n]`, seconds, n >= LEAST.

    alpha: the share of samples of each shape that may be refused by chance. Raises ValueError for fewer
    values, for alpha outside 0..1 or too few resamples to tell.
    """
    x = ascending(sample, least=LEAST)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: expected between 0 and 1, got {alpha}")
    if resamples < 1 / alpha:
        raise ValueError(
            f"resamples: expected >= {math.ceil(1 / alpha)} for alpha {alpha:g}, got {resamples}"
        )
    if x[0] == x[-1]:
        return TailShape("concave", 1.0, 0.0, None)
    concave = _p_value(x, rng, resamples, upper=True)
    convex = _p_value(x, rng, resamples, upper=False)
    verdicts: dict[tuple[bool, bool], LogTail] = {
        (True, True): "both",
        (True, False): "concave",
        (False, True): "convex",
        (False, False): "neither",
    }
    after: float | None = 0.0
    if convex < alpha:
        after = _convex_after(x, rng, alpha, resamples) if concave < alpha else None
    return TailShape(verdicts[concave >= alpha, convex >= alpha], concave, convex, after)


def _convex_after(x: Points, rng: np.random.Generator, alpha: float, resamples: int) -> float | None:
    for younger in YOUNGER:
        age = x[int(younger * len(x))]
        left = x[x > age] - age
        if len(left) < LEAST or left[0] == left[-1]:
            return None
        if _p_value(left, rng, resamples, upper=False) >= alpha:
            return float(age)
    return None


def _p_value(x: Points, rng: np.random.Generator, resamples: int, *, upper: bool) -> float:
    found = _distance(x, upper)
    draws = np.sort(rng.exponential(1.0, (resamples, len(x))), axis=1)
    as_far = sum(_distance(draw, upper) >= found for draw in draws)
    return (as_far + 1) / (resamples + 1)


def _distance(x: Points, upper: bool) -> float:
    """The largest gap to the hull, in units of the standard error that the log tail has there.

    x: ascending. The error is sqrt(F / (n S)).
    """
    ages, logs = _log_tail(x)
    hull = _hull(ages, logs, upper)
    gap = np.interp(ages, ages[hull], logs[hull]) - logs
    tail = np.exp(logs)
    # At least as if a tenth had ended: the first few values have next to no error and would decide alone.
    error = np.sqrt(np.maximum(1 - tail, 0.1) / (len(x) * tail))
    return float(np.max((gap if upper else -gap) / error))


def _log_tail(x: Points) -> tuple[Points, Points]:
    """(0, 0) and the log of the empirical tail at up to GRID of the ordered values."""
    n = len(x)
    ranks = np.linspace(0, n - 1 - BEYOND, min(GRID, n - BEYOND)).round().astype(np.intp)
    ages = np.unique(x[ranks])
    first, last = np.searchsorted(x, ages, "left"), np.searchsorted(x, ages, "right")
    # A single value: the middle of its jump. Equal values are a jump of the law itself: both of its ends, the
    # upper one a little earlier so that the curve stays a function.
    jump = last - first > 1
    before, after = jump & (ages > 0), jump & (n - last >= BEYOND)
    at = np.concatenate([[0.0], ages[~jump], ages[before] * (1 - NARROW), ages[after]])
    left = np.concatenate([[0.0], (first[~jump] + 0.5) / n, first[before] / n, last[after] / n])
    order = np.lexsort((left, at))
    at, left = at[order], left[order]
    keep = np.append(np.diff(at) > 0, True)
    return at[keep], np.log1p(-left[keep])


def _hull(ages: Points, logs: Points, upper: bool) -> NDArray[np.intp]:
    """Return the indices of the points at which the majorant (or minorant) touches."""
    sign = 1.0 if upper else -1.0
    xs, ys = ages.tolist(), (sign * logs).tolist()
    kept: list[int] = []
    for i in range(len(xs)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            if (ys[b] - ys[a]) * (xs[i] - xs[b]) > (ys[i] - ys[b]) * (xs[b] - xs[a]):
                break
            kept.pop()
        kept.append(i)
    return np.array(kept, dtype=np.intp)
