"""When a slow batch is sent again: the delay, found from what calls took, and the budget.

Delays count from the start of service, not from arrival: in a queue that the ingress keeps itself, a
copy of a call that still waits would only wait behind it.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from parm_ray.redundancy.budget import Budget

DelayRule = Literal["fixed", "quantile", "searched"]
DELAY_RULES: tuple[str, ...] = get_args(DelayRule)

# A delay is worked out again after so many observations: often enough to follow a change within
# seconds, rarely enough that sorting the window costs nothing.
REFRESH = 200

# Order statistics that a search looks at, and delays that it tries.
POINTS, CANDIDATES = 250, 32

# A delay is as good as the best one if its quantile is larger by no more than this share.
CLOSE = 0.03


@dataclass(frozen=True, slots=True)
class Hedge:
    """How hedges are sent.

    rule: "fixed": after delay_s seconds of service. "quantile": after the `quantile` (0..1) of the last
        `window` service times (Finagle's and failsafe-go's rule). "searched": after the delay that makes
        the `quantile` of min(X, d + X') least among those whose hedge rate keeps within the budget's
        ratio, X and X' being two service times of the window. A quantile fails once as many calls are
        slow as it leaves out; a search does not.
    delay_s: for "fixed"; for the others, what is used until `least` service times are known, None = no
        hedges until then.
    max_hedges: calls of one batch beside its first, at most; copies sent for another reason count. Two:
        where a share p of the calls is slow, one hedge leaves p^2 of the batches slow, which is what the
        99.99th percentile sees; a second costs a share p^2 of the calls, next to nothing.
    budget_ratio, budget_floor_per_s: hedges allowed: so many per query, and so many a second whatever the
        load, see `Budget`.
    """

    rule: DelayRule = "searched"
    delay_s: float | None = None
    quantile: float = 0.99
    window: int = 1000
    least: int = 100
    max_hedges: int = 2
    budget_ratio: float = 0.1
    budget_floor_per_s: float = 1.0

    def __post_init__(self) -> None:
        if self.rule not in DELAY_RULES:
            raise ValueError(f"rule: expected one of {DELAY_RULES}, got {self.rule!r}")
        if self.rule == "fixed" and self.delay_s is None:
            raise ValueError("delay_s: expected seconds for rule fixed, got None")
        if self.delay_s is not None and not (math.isfinite(self.delay_s) and self.delay_s >= 0):
            raise ValueError(f"delay_s: expected seconds >= 0, got {self.delay_s}")
        if not 0 < self.quantile < 1:
            raise ValueError(f"quantile: expected between 0 and 1, got {self.quantile}")
        if self.max_hedges < 1:
            raise ValueError(f"max_hedges: expected >= 1, got {self.max_hedges}")
        if not 2 <= self.least <= self.window:
            raise ValueError(f"least: expected 2..window ({self.window}), got {self.least}")


class Hedger:
    """The delay and the budget of one ingress at work."""

    def __init__(self, hedge: Hedge) -> None:
        self._hedge = hedge
        self._budget = Budget(hedge.budget_ratio, hedge.budget_floor_per_s)
        self._times: deque[float] = deque(maxlen=hedge.window)
        self._delay = hedge.delay_s
        self._fresh = 0

    def follow(self, hedge: Hedge) -> Hedger:
        """Return a hedger by another rule (itself for the same) that goes on with what this one has.

        The times that calls took are copied; the budget is one for both, retuned to the new rule's: while
        batches that began under this one are still hedged by it, both together keep within it.
        """
        if hedge == self._hedge:
            return self
        after = Hedger(hedge)
        self._budget.retune(hedge.budget_ratio, hedge.budget_floor_per_s)
        after._budget = self._budget
        after._times.extend(self._times)
        if hedge.rule != "fixed" and len(after._times) >= hedge.least:
            after._learn()
        return after

    @property
    def delay_s(self) -> float | None:
        """Seconds of service after which a batch is sent again; None = not known yet."""
        return self._delay

    def query(self, now: float) -> None:
        """A batch was dispatched: it earns its share of the budget."""
        self._budget.deposit(now)

    def allow(self, now: float) -> bool:
        """Take one hedge from the budget; False if there is none."""
        return self._budget.take(now)

    def observe(self, seconds: float) -> None:
        """A call took that long in service."""
        self._times.append(seconds)
        if self._hedge.rule == "fixed":
            # Kept all the same: another rule may follow.
            return
        self._fresh += 1
        known = len(self._times)
        if known >= self._hedge.least and (self._fresh >= REFRESH or known == self._hedge.least):
            self._learn()

    def _learn(self) -> None:
        self._fresh = 0
        known = len(self._times)
        times = np.sort(np.fromiter(self._times, dtype=np.float64))
        if self._hedge.rule == "quantile":
            self._delay = float(times[min(known - 1, math.ceil(self._hedge.quantile * known) - 1)])
        else:
            self._delay = best_delay(times, self._hedge.quantile, self._hedge.budget_ratio)


def best_delay(times: NDArray[np.float64], q: float, max_rate: float) -> float:
    """Return the delay d that makes the q-quantile of min(X, d + X') least; X, X' independent.

    times: ascending service times, seconds, n of them. Candidates are the observed times; those at which
    more than a share max_rate of the calls would still run are left out. P(min > t) = S(t) S(t - d)
    with S the sample's tail (facts of delayed hedging: Dean and Barroso, "The Tail at Scale", 2013).
    Of those that come within CLOSE of the least quantile, the longest: where most calls take much the
    same time, it sends a few hedges in place of many that would have been answered a moment later.
    """
    if len(times) > POINTS:
        times = times[np.linspace(0, len(times) - 1, POINTS).round().astype(int)]
    n = len(times)
    tail = 1 - np.arange(1, n + 1) / n
    allowed = times[tail <= max_rate]
    # A coarse grid of candidates is enough: the quantile moves little between neighbours.
    candidates = np.unique(allowed[:: max(1, len(allowed) // CANDIDATES)])
    quantiles = np.empty(len(candidates))
    for number, delay in enumerate(candidates):
        grid = np.unique(np.concatenate([times, delay + times]))
        survive = _tail_at(times, grid) * np.where(grid < delay, 1.0, _tail_at(times, grid - delay))
        reached = np.flatnonzero(survive <= 1 - q)
        quantiles[number] = grid[reached[0]] if len(reached) else math.inf
    return float(candidates[np.flatnonzero(quantiles <= quantiles.min() * (1 + CLOSE))[-1]])


def _tail_at(times: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of `times` above each of `at`."""
    return 1 - np.searchsorted(times, at, side="right") / len(times)
