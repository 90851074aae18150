"""The search for the highest rate that holds: bracketing by doubling, then bisection on a log scale.

Pure: it is given `probe(rate)` and knows nothing of how a rate is tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Probe:
    """One rate that was tried.

    rate: queries per second. held: whether the tail was within its limit. p99_s: nearest rank from the
    planned times over all planned queries, seconds; inf if it falls among the failed or unsent. planned,
    sent: queries; a probe that cannot hold any more stops sending. utilisation: busy share of the
    deployed pool, 0..1, nan if unknown.
    """

    rate: float
    held: bool
    p99_s: float = math.nan
    planned: int = 0
    sent: int = 0
    utilisation: float = math.nan


@dataclass(frozen=True, slots=True)
class Saturation:
    """What a search found. Rates in queries per second.

    held: the highest rate that held, None if not even the lowest did. failed: the lowest rate that did
    not, None if even the highest held. probes: all that were made, in order.
    """

    held: float | None
    failed: float | None
    probes: tuple[Probe, ...]


def search(
    probe: Callable[[float], Probe], *, low: float, high: float, resolution: float = 0.05, votes: int = 1
) -> Saturation:
    """Find the highest rate in `low` .. `high` (queries per second) that holds.

    From `low` the rate is doubled until one does not hold or `high` does: a system is not driven far
    beyond what it can do. Then the geometric middle is tried until the lowest rate that did not hold is
    at most 1 + resolution times the highest that did. votes: odd; each rate is tried until a majority of
    so many probes agree. Near the limit a probe is a matter of chance; with more votes the answer comes
    out more alike from search to search.

    Raises ValueError unless 0 < low < high, resolution > 0 and votes is odd and >= 1.
    """
    if not (0 < low < high < math.inf):
        raise ValueError(f"low, high: expected 0 < low < high queries per second, got {low} and {high}")
    if not 0 < resolution < math.inf:
        raise ValueError(f"resolution: expected a share > 0, got {resolution}")
    if votes < 1 or votes % 2 == 0:
        raise ValueError(f"votes: expected an odd number >= 1, got {votes}")
    made: list[Probe] = []

    def holds(rate: float) -> bool:
        tally = {True: 0, False: 0}
        while max(tally.values()) <= votes // 2:
            made.append(probe(rate))
            tally[made[-1].held] += 1
        return tally[True] > tally[False]

    if not holds(low):
        return Saturation(None, low, tuple(made))
    held, failed = low, min(2 * low, high)
    while holds(failed):
        if failed == high:
            return Saturation(high, None, tuple(made))
        held, failed = failed, min(2 * failed, high)
    while failed > held * (1 + resolution):
        middle = math.sqrt(held * failed)
        if holds(middle):
            held = middle
        else:
            failed = middle
    return Saturation(held, failed, tuple(made))
