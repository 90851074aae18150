"""The old way: a proportional controller that moves weights towards faster engines. The baseline to beat.

Every interval it compares each engine's latency with the mean and multiplies the engine's weight by
1 + K (mean - own) / mean. Latency reacts to weights with elasticity rho / (1 - rho), and is seen some
intervals late, so that the loop is stable only below a gain that shrinks as load grows: see `critical_gain`.
One gain cannot serve quiet and busy hours, which is why traffic swings back and forth between engines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Shares = dict[str, float]


@dataclass(frozen=True)
class Feedback:
    """The controller's knobs.

    gain: K. smoothing: of the latencies seen, the weight of the newest, 0..1 (1 = none). max_step: how far a
    weight may move at once, as a share of itself. floor, ceiling: of a share of the traffic.
    """

    gain: float
    smoothing: float = 1.0
    max_step: float = 0.5
    floor: float = 0.0
    ceiling: float = 1.0

    def __post_init__(self) -> None:
        if not self.gain > 0:
            raise ValueError(f"gain: expected > 0, got {self.gain}")
        if not 0 < self.smoothing <= 1:
            raise ValueError(f"smoothing: expected above 0, at most 1, got {self.smoothing}")
        if not self.max_step > 0:
            raise ValueError(f"max_step: expected > 0, got {self.max_step}")
        if not 0 <= self.floor <= self.ceiling <= 1:
            raise ValueError(
                f"floor, ceiling: expected 0 <= floor <= ceiling <= 1, got {self.floor}, {self.ceiling}"
            )


@dataclass
class Controller:
    """One controller at work. shares: of the traffic, by engine; they sum to 1."""

    settings: Feedback
    shares: Shares
    _seen: Shares = field(default_factory=dict)

    def update(self, latencies: Mapping[str, float | None]) -> Shares:
        """Take the latencies of one interval, seconds, and return the new shares.

        An engine whose latency is not known (None, or missing) keeps its weight, and counts neither as fast
        nor as slow.
        """
        knobs = self.settings
        for name in self.shares:
            latency = latencies.get(name)
            if latency is not None and math.isfinite(latency):
                before = self._seen.get(name, latency)
                self._seen[name] = before + knobs.smoothing * (latency - before)
        known = {name: seen for name, seen in self._seen.items() if latencies.get(name) is not None}
        if known:
            mean = sum(known.values()) / len(known)
            for name, seen in known.items():
                step = knobs.gain * (mean - seen) / mean
                self.shares[name] *= 1 + max(-knobs.max_step, min(knobs.max_step, step))
        self.shares = bounded(self.shares, knobs.floor, knobs.ceiling)
        return dict(self.shares)


def bounded(weights: Mapping[str, float], floor: float, ceiling: float) -> Shares:
    """Return shares in proportion to the weights that sum to 1, each within the bounds if it can be."""
    total = sum(weights.values())
    shares = {name: weight / total for name, weight in weights.items()} if total > 0 else {}
    if not shares:
        return {name: 1 / len(weights) for name in weights}
    fixed: Shares = {}
    while len(fixed) < len(shares):
        free = {name: share for name, share in shares.items() if name not in fixed}
        whole, left = sum(free.values()), 1 - sum(fixed.values())
        scaled = {n: s * left / whole if whole > 0 else left / len(free) for n, s in free.items()}
        over = {n: s - ceiling for n, s in scaled.items() if s > ceiling}
        under = {n: floor - s for n, s in scaled.items() if s < floor}
        if not over and not under:
            return {**fixed, **scaled}
        # What the one side gives away the other may need: the larger side first.
        if sum(over.values()) >= sum(under.values()):
            fixed.update(dict.fromkeys(over, ceiling))
        else:
            fixed.update(dict.fromkeys(under, floor))
    return fixed


def critical_gain(utilization: float, delay: int) -> float:
    """Return the gain from which on shares swing for ever, with latencies seen `delay` intervals late.

    For engines with L = 1 / (c - y): 2 sin(pi / (2 (2 D + 1))) (1 - rho) / rho, the stability limit of a
    first-order loop with a delay of D steps.
    """
    return 2 * math.sin(math.pi / (2 * (2 * delay + 1))) * (1 - utilization) / utilization


def swings(
    update: Callable[[Mapping[str, float | None]], Shares],
    start: Shares,
    latency: Callable[[Shares], Mapping[str, float]],
    *,
    delay: int,
    intervals: int,
) -> list[Shares]:
    """Return the shares of every interval, of a fleet whose latencies follow the shares at once.

    update: what the control plane makes of the latencies that were seen `delay` intervals ago.
    """
    history = [dict(start)]
    seen: list[Mapping[str, float]] = [latency(start)] * (delay + 1)
    for _ in range(intervals):
        shares = update(seen[-1 - delay])
        history.append(shares)
        seen.append(latency(shares))
    return history
