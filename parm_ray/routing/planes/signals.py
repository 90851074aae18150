"""What front ends tell the control plane: what came, where it went, how long it took."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Seen:
    """What one front end saw of one engine in one interval.

    answers, seconds: calls that ended well, and how long they took together, network included.
    failures: calls that ended badly; they say nothing about time, and failing fast must not look fast.
    waiting, waited_s: calls that are still out, and how long they have been, together: each will have taken
    at least that long.
    """

    answers: int = 0
    seconds: float = 0.0
    failures: int = 0
    waiting: int = 0
    waited_s: float = 0.0

    def __add__(self, other: Seen) -> Seen:
        return Seen(
            self.answers + other.answers,
            self.seconds + other.seconds,
            self.failures + other.failures,
            self.waiting + other.waiting,
            self.waited_s + other.waited_s,
        )

    @property
    def valid(self) -> bool:
        """Whether all of it can have been: finite and not negative."""
        numbers = (self.answers, self.seconds, self.failures, self.waiting, self.waited_s)
        return min(numbers) >= 0 and math.isfinite(sum(numbers))

    @property
    def samples(self) -> int:
        """Calls that say something about its speed."""
        return self.answers + self.waiting

    @property
    def mean_s(self) -> float | None:
        """How long its calls take, seconds, None = nothing is known.

        The larger of two lower bounds: the mean of those that have ended, and that of all, of which those
        still out count as what they have waited. An engine that answers nothing any more is slow by it.
        """
        ended = self.seconds / self.answers if self.answers else 0.0
        every = (self.seconds + self.waited_s) / self.samples if self.samples else 0.0
        return max(ended, every) or None

    @property
    def failed_share(self) -> float | None:
        """Of the calls that have ended, 0..1; None = none has."""
        ended = self.answers + self.failures
        return self.failures / ended if ended else None


@dataclass(frozen=True)
class Report:
    """One interval of one replica of a front end.

    seconds: how long the interval was. arrivals: requests by the demand's name, those shed among them.
    engines: by name. network_s: round trips to engines that were measured, seconds.
    """

    front_end: str
    replica: str
    seconds: float
    arrivals: Mapping[str, int] = field(default_factory=dict)
    engines: Mapping[str, Seen] = field(default_factory=dict)
    network_s: Mapping[str, float] = field(default_factory=dict)
