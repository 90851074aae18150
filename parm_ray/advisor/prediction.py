"""What a strategy of redundancy is predicted to do, and how far the prediction may be believed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

# "at zero load": exact for a job that finds all servers idle; waiting is left out.
Standing = Literal["exact", "approximation", "lower bound", "upper bound", "at zero load"]
STANDINGS: tuple[str, ...] = get_args(Standing)


@dataclass(frozen=True, slots=True)
class Losers:
    """What becomes of copies in service whose result is no longer wanted.

    cancel_s: seconds >= 0 that a server stays occupied by each after it was cancelled; None = service
        cannot be interrupted, they run to their end.
    """

    cancel_s: float | None = 0.0

    def __post_init__(self) -> None:
        if self.cancel_s is not None and not (math.isfinite(self.cancel_s) and self.cancel_s >= 0):
            raise ValueError(f"cancel_s: expected seconds >= 0 or None, got {self.cancel_s!r}")


FREE = Losers()


@dataclass(frozen=True, slots=True)
class Prediction:
    """Latency and cost of a strategy.

    servers: how many, n.
    latency_s: E[T], seconds from arrival to result; inf where the queues grow without bound.
    cost_s: E[C], seconds of all servers together that a job takes.
    """

    servers: int
    latency_s: float
    cost_s: float
    latency_is: Standing = "exact"
    cost_is: Standing = "exact"

    @property
    def max_rate(self) -> float:
        """Jobs per second below which the queues do not grow: n / E[C].

        For every strategy that treats servers alike, as all are then equally busy (Joshi, Soljanin and
        Wornell, 2017). As true as the cost: where that is "at zero load", copies that start at different
        times under load may make it another.
        """
        return self.servers / self.cost_s if self.cost_s else math.inf


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is between `low` and `high`, both in seconds; inf where there is no finite bound."""

    low: float
    high: float


def whole(name: str, value: int, least: int, most: int | None = None) -> None:
    """Raise ValueError unless least <= value <= most."""
    if value < least or (most is not None and value > most):
        legal = f">= {least}" if most is None else f"{least}..{most}"
        raise ValueError(f"{name}: expected {legal}, got {value}")


def arrivals(rate: float) -> None:
    """Raise ValueError unless `rate`, jobs per second, is finite and >= 0."""
    if not (math.isfinite(rate) and rate >= 0):
        raise ValueError(f"rate: expected jobs per second >= 0, got {rate!r}")
