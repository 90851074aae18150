"""One budget for retries and hedges that shrinks as load grows: generous when idle, nothing near saturation.

A retry takes its token when it is scheduled, not when it is sent, so that those that wait in backoff count:
a thousand calls that fail at once may not all come back (envoyproxy/envoy#30205). When its backoff is over
it is asked again, as load may have come meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from parm_ray.redundancy.budget import Budget

SAVED_S = 2.0
"""For how long what is not used is saved: a storm after a quiet time gets no more than that at once."""


@dataclass(frozen=True)
class RetryRule:
    """How many calls may be sent again.

    most: per request, at low load; full_below, none_above: utilisation of the engines, 0..1, up to which
    all of it is granted, and from which on nothing is; a straight line between. attempts: calls of one
    request, the first included, at most. backoff_s, max_backoff_s: before the first retry, doubled each
    time; the wait is drawn between half of it and all of it.
    """

    most: float = 0.2
    full_below: float = 0.5
    none_above: float = 0.95
    attempts: int = 3
    backoff_s: float = 0.025
    max_backoff_s: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.most <= 1:
            raise ValueError(f"most: expected 0..1, got {self.most}")
        if not 0 <= self.full_below < self.none_above <= 1:
            got = f"{self.full_below}, {self.none_above}"
            raise ValueError(f"full_below, none_above: expected 0 <= full_below < none_above <= 1, got {got}")
        if self.attempts < 1:
            raise ValueError(f"attempts: expected >= 1, got {self.attempts}")
        if not 0 <= self.backoff_s <= self.max_backoff_s:
            raise ValueError(f"backoff_s: expected 0..max_backoff_s, got {self.backoff_s}")

    def ratio(self, load: float) -> float:
        """Return what is granted per request at a utilisation."""
        part = (self.none_above - load) / (self.none_above - self.full_below)
        return self.most * min(1.0, max(0.0, part))

    def wait_s(self, retry: int, draw: float) -> float:
        """Return how long retry number 1, 2, ... waits, with a draw from 0..1."""
        return min(self.max_backoff_s, self.backoff_s * 2 ** (retry - 1)) * (0.5 + 0.5 * draw)


class RetryBudget:
    """A `RetryRule` at work, in one front end.

    `offered` counts requests, `granted` the second calls that were sent or wait to be, `in_backoff` those
    that wait, `refused` those that were not sent for want of budget. In the long run granted / offered <=
    `ratio`.
    """

    def __init__(self, rule: RetryRule) -> None:
        self.rule = rule
        self._budget = Budget(rule.most, window_s=SAVED_S)
        self.offered = self.granted = self.refused = self.in_backoff = 0

    @property
    def ratio(self) -> float:
        """What is granted per request now."""
        return self._budget.ratio

    def load(self, utilization: float) -> None:
        """The engines are that busy, 0..1."""
        self._budget.retune(self.rule.ratio(utilization))

    def request(self, now: float) -> None:
        """A request came: it earns its share."""
        self.offered += 1
        self._budget.deposit(now)

    def hedge(self, now: float) -> bool:
        """Take what a second call needs that is sent at once; False = it may not be sent."""
        granted = self._budget.ratio > 0 and self._budget.take(now)
        self.granted += granted
        self.refused += not granted
        return granted

    def schedule(self, now: float) -> bool:
        """Take what a retry needs that is sent after a backoff; call `leave` when that is over, or `drop`."""
        granted = self.hedge(now)
        self.in_backoff += granted
        return granted

    def leave(self) -> bool:
        """The backoff of a scheduled retry is over; False = it may not be sent now, and its token is back."""
        if self._budget.ratio <= 0:
            self.drop()
            self.refused += 1
            return False
        self.in_backoff -= 1
        return True

    def drop(self) -> None:
        """A scheduled retry is not sent, as nobody waits for it any more: its token is back."""
        self.in_backoff -= 1
        self.give_back()

    def give_back(self) -> None:
        """What was granted is not sent after all."""
        self.granted -= 1
        self._budget.give_back()
