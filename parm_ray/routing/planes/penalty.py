"""Penalties: an engine that is slower than it should be, and than the others are, loses weight by steps.

The measure is the latency seen over the latency that the engine's own model expects at its load, so that a
slow kind of hardware is not an outlier among fast ones. What counts as far off is judged by the median and
the median absolute deviation: with mean and standard deviation one of three engines can never be an outlier.
An engine that is penalised keeps a trickle of traffic, by which it is seen to recover.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from parm_ray.routing.planes.signals import Health

# Of normal numbers, the standard deviation in median absolute deviations.
_SIGMA = 1.4826


LEAST_SPREAD = 0.5
"""Of what is expected: engines that agree by chance do not make a third one an outlier that is as usual."""


@dataclass(frozen=True)
class PenaltyRule:
    """When an engine is penalised, and how.

    deviations: so many robust standard deviations above the median, and `least_ratio` times the median, is
    an outlier. slo_s: slower than that is one too, unless the median engine is as well (seconds; None = no
    bound). failed_share: of its calls, above the median's. min_samples: calls that it takes to judge an
    engine; probes: to judge one that is penalised, and gets few. patience: intervals within which calls
    count together; a penalised engine that got none for so long is given more. step: what a bad judgement
    multiplies the weight by; floor: the least it gets to; recovery: what a good one multiplies it by until it
    is 1 again. max_share: of the engines, how many may be penalised at once, rounded down.
    """

    deviations: float = 4.0
    least_ratio: float = 3.0
    slo_s: float | None = None
    failed_share: float = 0.5
    min_samples: int = 10
    step: float = 0.25
    floor: float = 0.02
    recovery: float = 2.0
    probes: int = 3
    patience: int = 10
    max_share: float = 0.5

    def __post_init__(self) -> None:
        for name, value, least in (
            ("deviations", self.deviations, 0.0),
            ("least_ratio", self.least_ratio, 1.0),
            ("recovery", self.recovery, 1.0),
        ):
            if not (math.isfinite(value) and value > least):
                raise ValueError(f"{name}: expected above {least:g}, got {value}")
        for name, value in (("step", self.step), ("floor", self.floor), ("failed_share", self.failed_share)):
            if not 0 < value < 1:
                raise ValueError(f"{name}: expected between 0 and 1, got {value}")
        if self.slo_s is not None and not self.slo_s > 0:
            raise ValueError(f"slo_s: expected seconds > 0, got {self.slo_s}")
        for name, number in (
            ("min_samples", self.min_samples),
            ("probes", self.probes),
            ("patience", self.patience),
        ):
            if number < 1:
                raise ValueError(f"{name}: expected >= 1, got {number}")
        if not 0 <= self.max_share <= 1:
            raise ValueError(f"max_share: expected 0..1, got {self.max_share}")


class Penalties:
    """The multipliers of all engines, 1 = none, kept from interval to interval."""

    def __init__(self, engines: list[str], rule: PenaltyRule) -> None:
        self._rule = rule
        self.multipliers = dict.fromkeys(engines, 1.0)
        self.reasons: dict[str, str] = {}
        # Penalised because their calls fail: there is no use in sending them anything for want of others.
        self.failing: set[str] = set()
        # What calls since the last judgement said, and for how many intervals.
        self._probed: dict[str, tuple[Health, int]] = {}
        # What the last judgement of each said, and how many intervals ago that was.
        self._compared: dict[str, tuple[Health, int]] = {}

    def restore(
        self, multipliers: Mapping[str, float], reasons: Mapping[str, str], failing: Collection[str]
    ) -> None:
        """Go on from what another one had come to; engines that are not named have no penalty.

        What was being gathered is not known: an engine that was about to be judged is seen a little longer.
        """
        self.multipliers = {name: multipliers.get(name, 1.0) for name in self.multipliers}
        self.reasons, self.failing = dict(reasons), set(failing)

    def update(self, seen: Mapping[str, Health]) -> dict[str, float]:
        """Take one interval and return the new multipliers, by engine; `reasons` says why."""
        rule, before = self._rule, self.multipliers
        seen, waiting = self._gathered(seen)
        bad = self._outliers(seen)
        room = math.floor(rule.max_share * len(before) + 1e-9)
        # Who is penalised already stays first: the cap must not pass a penalty around.
        ranked = sorted(bad, key=lambda name: (before[name] == 1.0, -bad[name][0]))
        held = [name for name, multiplier in before.items() if multiplier < 1 and name not in bad]
        chosen = set(ranked[: max(0, room - len(held))])
        now = {}
        for name, multiplier in before.items():
            if name in chosen:
                now[name] = max(rule.floor, multiplier * rule.step)
            elif name in waiting or (name in bad and multiplier < 1):
                now[name] = multiplier
            else:
                now[name] = min(1.0, multiplier * rule.recovery)
        self.multipliers = now
        stays = {name for name in self.failing if name in waiting}
        self.failing = stays | {name for name, (_, _, fails) in bad.items() if fails and now[name] < 1}
        kept = {name: why for name, why in self.reasons.items() if name in waiting}
        self.reasons = {**kept, **{name: why for name, (_, why, _) in bad.items() if now[name] < 1}}
        return dict(now)

    def _gathered(self, seen: Mapping[str, Health]) -> tuple[dict[str, Health], set[str]]:
        """Return what is known of each engine, and those of which there is too little yet to tell.

        Calls of several intervals count together until they are enough: an engine that front ends avoid
        already must not stay unjudged for it.
        """
        rule, found, waiting = self._rule, {}, set()
        for name, multiplier in self.multipliers.items():
            before, intervals = self._probed.pop(name, (Health(), 0))
            health, intervals = before.then(seen.get(name, Health())), intervals + 1
            self._probed[name] = (health, intervals)
            # Few as they are, they are all that a penalised engine gets to show.
            if health.samples >= (rule.min_samples if multiplier == 1 else rule.probes):
                found[name] = health
            elif intervals < rule.patience:
                waiting.add(name)
        self._compared = {
            name: (health, age + 1)
            for name, (health, age) in self._compared.items()
            if age < rule.patience and name not in found
        } | {name: (health, 0) for name, health in found.items()}
        if len(self._compared) < 2:
            # With nobody to compare it with it is neither good nor bad.
            waiting |= {name for name in found if self._probed[name][1] < rule.patience}
            found = {}
        self._probed = {name: self._probed[name] for name in waiting}
        return found, waiting

    def _outliers(self, seen: Mapping[str, Health]) -> dict[str, tuple[float, str, bool]]:
        """Return how bad each outlier is, why it is one, and whether it is for failed calls.

        Beside those judged now stand the others as they were judged last, if that is not long ago.
        """
        rule = self._rule
        others = [health for health, _ in self._compared.values()]
        ratios = {name: h.ratio for name, h in seen.items() if h.ratio is not None}
        found: dict[str, tuple[float, str, bool]] = {}
        known = [h.ratio for h in others if h.ratio is not None]
        if len(known) > 1:
            middle = _median(known)
            spread = _SIGMA * _median([abs(ratio - middle) for ratio in known])
            spread = max(spread, LEAST_SPREAD)
            for name, ratio in ratios.items():
                if ratio > middle + rule.deviations * spread and ratio > rule.least_ratio * middle:
                    why = f"{ratio:.1f} times its expected latency, the median {middle:.1f}"
                    found[name] = (ratio, why, False)
        times = [h.seen.mean_s for h in others if h.seen.mean_s is not None]
        if rule.slo_s is not None and len(times) > 1 and _median(times) <= rule.slo_s:
            for name, health in seen.items():
                seconds = health.seen.mean_s or 0.0
                if seconds > rule.slo_s and name not in found:
                    why = f"{1e3 * seconds:.0f} ms, above the bound of {1e3 * rule.slo_s:.0f}"
                    found[name] = (seconds / rule.slo_s, why, False)
        shares = [h.seen.failed_share for h in others if h.seen.failed_share is not None]
        if len(shares) > 1 and (middle := _median(shares)) < rule.failed_share:
            for name, health in seen.items():
                share = health.seen.failed_share or 0.0
                if share - middle > rule.failed_share:
                    found[name] = (1e6 * share, f"{100 * share:.0f} % of its calls failed", True)
        return found


def _median(values: list[float]) -> float:
    """The lower one of an even number: of two engines the better one is what to expect."""
    return sorted(values)[(len(values) - 1) // 2]
