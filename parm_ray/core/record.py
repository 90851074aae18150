"""What is remembered of one query: record first, report later."""

from __future__ import annotations

from dataclasses import dataclass

from parm_ray.core.outcome import Outcome


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """One answered (or failed) query. Times are seconds of one monotonic clock.

    `lateness_s` is how long after the hold-off the reconstruction or default was used: 0 for originals.
    `group` and `slot` are None for a query that joined no group.
    """

    query: int
    submitted: float
    resolved: float
    outcome: Outcome
    group: int | None = None
    slot: int | None = None
    lateness_s: float = 0.0
    attempts: int = 1
    error: str | None = None

    @property
    def latency_s(self) -> float:
        """Seconds from submission to resolution."""
        return self.resolved - self.submitted
