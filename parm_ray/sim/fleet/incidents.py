"""What happens to a large fleet over hours: demand that follows the day, engines that fail now and then."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from parm_ray.sim.fleet.setting import Change, ChangeKind

HOUR_S = 3600.0


@dataclass(frozen=True)
class Daily:
    """Demand that rises and falls.

    amplitude: 0..1: a front end's demand goes from 1 - amplitude to 1 + amplitude times the declared, as a
    sine of `period_s`; each front end's comes later than the last one's, as days begin later further west.
    step_s: between two changes.
    """

    amplitude: float
    period_s: float = 24 * HOUR_S
    step_s: float = 60.0

    def __post_init__(self) -> None:
        if not 0 <= self.amplitude <= 1:
            raise ValueError(f"amplitude: expected 0..1, got {self.amplitude}")
        if not 0 < self.step_s <= self.period_s:
            raise ValueError(f"step_s: expected above 0, at most period_s, got {self.step_s}")

    def changes(self, front_ends: Sequence[str], duration_s: float) -> list[Change]:
        """Return the changes of a run."""
        found = []
        for i, name in enumerate(front_ends):
            for n in range(math.ceil(duration_s / self.step_s)):
                at = n * self.step_s
                turn = 2 * math.pi * (at / self.period_s + i / len(front_ends))
                found.append(Change(at, "demand", 1 + self.amplitude * math.sin(turn), name))
        return found


@dataclass(frozen=True)
class Incidents:
    """Engines that fail, and front ends that cannot be heard, at random.

    per_hour: of each engine; it gets `slow` times as slow, fails every call, or has no replica left, with
    equal chance. silent_per_hour: of each front end. Each lasts `mean_s` on average (exponential), and the
    next one is drawn from its end on.
    """

    per_hour: float = 0.0
    silent_per_hour: float = 0.0
    mean_s: float = 120.0
    slow: float = 10.0

    def __post_init__(self) -> None:
        for name in ("per_hour", "silent_per_hour"):
            if not (math.isfinite(value := getattr(self, name)) and value >= 0):
                raise ValueError(f"{name}: expected >= 0, got {value}")
        for name in ("mean_s", "slow"):
            if not (math.isfinite(value := getattr(self, name)) and value > 0):
                raise ValueError(f"{name}: expected > 0, got {value}")

    def changes(
        self, engines: Sequence[str], front_ends: Sequence[str], duration_s: float, seed: int
    ) -> list[Change]:
        """Return the changes of a run."""
        rng, found = random.Random(seed), []
        for name in engines:
            found += self._of(rng, name, ("slow", "failing", "dead"), self.per_hour, duration_s)
        for name in front_ends:
            found += self._of(rng, name, ("silent",), self.silent_per_hour, duration_s)
        return found

    def _of(
        self, rng: random.Random, name: str, kinds: Sequence[ChangeKind], per_hour: float, duration_s: float
    ) -> list[Change]:
        found: list[Change] = []
        at = rng.expovariate(per_hour / HOUR_S) if per_hour else math.inf
        while at < duration_s:
            kind = rng.choice(kinds)
            found.append(Change(at, kind, self.slow if kind == "slow" else 1.0, name))
            at += rng.expovariate(1 / self.mean_s)
            if at < duration_s:
                found.append(Change(at, kind, 1.0 if kind == "slow" else 0.0, name))
            at += rng.expovariate(per_hour / HOUR_S)
        return found
