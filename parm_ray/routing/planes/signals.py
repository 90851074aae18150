"""What front ends tell the control plane: what came, where it went, how long it took."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

# Of all calls, the share of those still out above which they count: below it one that hangs, a client that
# reads slowly, a long answer would speak for an engine that answers all others as it should.
WAITING_SHARE = 1 / 3


@dataclass(frozen=True)
class Seen:
    """What one front end saw of one engine in one interval.

    answers, seconds: calls that ended well, and how long they took together, network included.
    failures: calls that ended badly; they say nothing about time, and failing fast must not look fast.
    waiting, waited_s: calls that are still out, and how long they have been, together. given_up, given_up_s:
    calls that were withdrawn as another engine was faster, and how long they had been out. Of both it is
    known that they take at least that long.
    """

    answers: float = 0
    seconds: float = 0.0
    failures: float = 0
    waiting: float = 0
    waited_s: float = 0.0
    given_up: float = 0
    given_up_s: float = 0.0

    def __add__(self, other: Seen) -> Seen:
        """What another saw, or the same one of other calls."""
        return Seen(*(mine + its for mine, its in zip(self._numbers, other._numbers, strict=True)))

    def then(self, later: Seen) -> Seen:
        """What the same one saw in a later interval, too: what was out then has ended, or is out still."""
        return replace(self, waiting=0, waited_s=0.0) + later

    def over(self, expected_s: float) -> Seen:
        """Times as multiples of what was expected."""
        return replace(
            self,
            seconds=self.seconds / expected_s,
            waited_s=self.waited_s / expected_s,
            given_up_s=self.given_up_s / expected_s,
        )

    @property
    def _numbers(self) -> tuple[float, ...]:
        return (
            self.answers, self.seconds, self.failures, self.waiting, self.waited_s, self.given_up,
            self.given_up_s,
        )  # fmt: skip

    @property
    def valid(self) -> bool:
        """Whether all of it can have been: finite and not negative."""
        return min(self._numbers) >= 0 and math.isfinite(sum(self._numbers))

    @property
    def ended(self) -> float:
        """Calls that are over, one way or another."""
        return self.answers + self.failures + self.given_up

    @property
    def late(self) -> float:
        """Calls still out that count: all, where they are many."""
        return self.waiting if self.waiting > WAITING_SHARE * (self.ended + self.waiting) else 0

    @property
    def mean_s(self) -> float | None:
        """How long its calls take, seconds, None = nothing is known.

        All the time of those that are over by the number that ended well: what it would be if calls were as
        likely to end at any moment (the usual estimate from censored times), and the mean of the answers if
        none was given up. Or, where many are out still, the mean of all, of which those count as what they
        have waited: an engine that answers nothing any more is slow by it. The larger one, as either is
        known to be too small.
        """
        over = (self.seconds + self.given_up_s) / (self.answers or 1.0)
        if not self.late:
            return over or None
        every = (self.seconds + self.given_up_s + self.waited_s) / (self.answers + self.given_up + self.late)
        return max(over, every) or None

    @property
    def failed_share(self) -> float | None:
        """Of the calls that have ended, 0..1; None = none has."""
        ended = self.answers + self.failures
        return self.failures / ended if ended else None


@dataclass(frozen=True)
class Health:
    """One engine's calls, and their times as multiples of what its model expects at the load that it had.

    What is None is not known: neither good nor bad.
    """

    seen: Seen = field(default_factory=Seen)
    relative: Seen = field(default_factory=Seen)

    @classmethod
    def of(cls, seen: Seen, expected_s: float) -> Health:
        """Return what calls say; times say nothing where nothing can be expected."""
        if 0 < expected_s < math.inf:
            return cls(seen, seen.over(expected_s))
        return cls(seen, Seen(failures=seen.failures))

    def then(self, later: Health) -> Health:
        """Return this and what came after it as one."""
        return Health(self.seen.then(later.seen), self.relative.then(later.relative))

    @property
    def ratio(self) -> float | None:
        """Seen over expected latency."""
        return self.relative.mean_s

    @property
    def samples(self) -> float:
        """Calls that say so. One that is out says that an engine is slow, once it is; never the reverse."""
        late = self.relative.late if (self.ratio or 0.0) > 1 else 0
        return self.seen.ended + late


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
