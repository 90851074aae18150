"""What front ends tell the control plane: what came, where it went, how long it took."""

from __future__ import annotations

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

    seconds: how long the interval was. arrivals, shed: requests by the demand's name. engines: by name.
    version: of the snapshot in use, 0 = none. sent: calls, retries and hedges among them. network_s: round
    trips to engines that were measured, seconds.
    """

    front_end: str
    replica: str
    seconds: float
    arrivals: Mapping[str, int] = field(default_factory=dict)
    shed: Mapping[str, int] = field(default_factory=dict)
    engines: Mapping[str, Seen] = field(default_factory=dict)
    version: int = 0
    sent: int = 0
    network_s: Mapping[str, float] = field(default_factory=dict)
