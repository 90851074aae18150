"""Which batches are run a second time for measuring alone: a share, within a budget."""

from __future__ import annotations

import random
from dataclasses import dataclass

from parm_ray.redundancy.budget import Budget

MAX_SHARE = 0.05
"""Measuring may cost so much of the queries' own work at most."""


@dataclass(frozen=True, slots=True)
class Shadow:
    """share: of the batches, 0..MAX_SHARE, each drawn by itself and before anything is known of its call.

    budget_ratio, budget_floor_per_s: shadows that may be sent, so many per batch and so many a second, see
    `Budget`. Raises ValueError for values out of range.
    """

    share: float = 0.01
    budget_ratio: float = 0.02
    budget_floor_per_s: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.share <= MAX_SHARE:
            raise ValueError(f"share: expected 0..{MAX_SHARE}, got {self.share}")
        if not 0 <= self.budget_ratio <= MAX_SHARE:
            raise ValueError(f"budget_ratio: expected 0..{MAX_SHARE}, got {self.budget_ratio}")


class ShadowDraw:
    """Decides batch by batch. rng: of the draws."""

    def __init__(self, shadow: Shadow, rng: random.Random) -> None:
        self._share = shadow.share
        self._budget = Budget(shadow.budget_ratio, shadow.budget_floor_per_s)
        self._rng = rng

    def wanted(self, now: float) -> bool:
        """A batch's first call starts: whether to shadow it. True takes one from the budget."""
        self._budget.deposit(now)
        return self._rng.random() < self._share and self._budget.take(now)

    def not_sent(self) -> None:
        """What was wanted last could not be sent."""
        self._budget.give_back()
