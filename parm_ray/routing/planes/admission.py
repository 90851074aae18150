"""Shedding: who is turned away at the door, at once, when there is more than the engines can serve.

Two rules. In advance: the plan says how much of each demand has to go, the least important first, and a
token bucket lets the rest pass. At the moment: no engine gets more calls in flight than the plan expects to
be there at its highest utilisation (Little's law), times `burst`; the less important a request, the earlier
it finds an engine full. Nothing waits in the front end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class AdmissionRule:
    """How much may be on its way.

    burst: times the planned number in flight an engine may have. reserve: of that limit, what each step in
    priority keeps for the more important ones. min_in_flight: per engine and front end, whatever the plan.
    slack: times the planned rate that the bucket lets pass of a demand that is shed in part; the planned
    rate leaves room up to the highest utilisation, the limit in flight guards the rest. burst_s: seconds'
    worth of requests that the bucket saves.
    """

    burst: float = 1.5
    reserve: float = 0.2
    min_in_flight: int = 2
    slack: float = 1.05
    burst_s: float = 0.5

    def __post_init__(self) -> None:
        if not self.burst > 0:
            raise ValueError(f"burst: expected > 0, got {self.burst}")
        if not 0 <= self.reserve < 1:
            raise ValueError(f"reserve: expected 0..1, below 1, got {self.reserve}")
        if self.min_in_flight < 1:
            raise ValueError(f"min_in_flight: expected >= 1, got {self.min_in_flight}")
        if not self.slack >= 1:
            raise ValueError(f"slack: expected >= 1, got {self.slack}")
        if not self.burst_s > 0:
            raise ValueError(f"burst_s: expected seconds > 0, got {self.burst_s}")

    def limit(self, planned: float, rank: int = 0) -> int:
        """Return how many calls an engine may have in flight from one front end.

        planned: how many the plan expects at its highest utilisation. rank: 0 for the most important.
        """
        whole = max(float(self.min_in_flight), self.burst * planned)
        return max(1, math.ceil(whole * (1 - self.reserve) ** rank))


class Gate:
    """The token bucket of one demand; open until `narrow` says how much may pass."""

    def __init__(self, rule: AdmissionRule) -> None:
        self._rule = rule
        self._rate: float | None = None
        self._tokens = 0.0
        self._last = 0.0

    def narrow(self, rate: float | None, now: float) -> None:
        """Let `rate` requests per second pass from now on, times the slack; None = all."""
        if rate is not None and self._rate is None:
            self._tokens, self._last = 1.0, now
        self._rate = None if rate is None else rate * self._rule.slack

    @property
    def rate(self) -> float | None:
        """Requests per second that pass, the slack included; None = all."""
        return self._rate

    def admit(self, now: float) -> bool:
        """Whether one more may pass now."""
        if self._rate is None:
            return True
        most = max(1.0, self._rate * self._rule.burst_s)
        self._tokens = min(most, self._tokens + self._rate * max(0.0, now - self._last))
        self._last = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def give_back(self) -> None:
        """Who was admitted last could not be sent."""
        if self._rate is not None:
            self._tokens += 1

    def retry_after_s(self) -> float:
        """Return after how many seconds the next one could pass."""
        if self._rate is None or self._rate <= 0:
            return 1.0
        return min(60.0, max(0.0, (1 - self._tokens) / self._rate))
