"""From queries to batches to groups: the only place where something waits for company."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from parm_ray.core import GroupId, QueryId
from parm_ray.groups.actions import Action, CancelTimer, StartTimer
from parm_ray.groups.events import Timer, TimerKind
from parm_ray.groups.group import Group
from parm_ray.groups.terms import Terms


@dataclass(slots=True)
class Batcher:
    """Collects queries into batches of at most `size`, the first of them waiting at most `wait_s`.

    `lane` keeps the timers of several batchers apart. Size 1 never waits and starts no timer.
    """

    size: int
    wait_s: float
    lane: int
    pending: list[QueryId] = field(default_factory=list)

    @property
    def timer(self) -> Timer:
        """The timer of the batch that is being collected."""
        return Timer(TimerKind.BATCH, self.lane)

    def add(self, query: QueryId, now: float) -> tuple[tuple[QueryId, ...] | None, list[Action]]:
        """Add a query; return the batch if it is full now, and what to do about the timer."""
        self.pending.append(query)
        if len(self.pending) >= self.size:
            timers: list[Action] = [CancelTimer(self.timer)] if self.size > 1 else []
            return self.take(), timers
        if len(self.pending) == 1:
            return None, [StartTimer(self.timer, now + self.wait_s)]
        return None, []

    def take(self) -> tuple[QueryId, ...] | None:
        """Return what is pending as a batch, None if nothing is."""
        batch, self.pending = tuple(self.pending), []
        return batch or None

    def drop(self, query: QueryId) -> bool:
        """Take a query out again; whether it was there."""
        if query not in self.pending:
            return False
        self.pending.remove(query)
        return True


def holding(query: QueryId, batchers: Iterable[Batcher]) -> Batcher:
    """Return the one that collects the batch of a query that is in none yet."""
    return next(batcher for batcher in batchers if query in batcher.pending)


def drop(query: QueryId, batchers: Iterable[Batcher]) -> list[Timer]:
    """Take a query out of whichever batch it is in; return the timers of batches that are empty now."""
    return [b.timer for b in batchers if b.drop(query) and not b.pending]


@dataclass(slots=True)
class Assembler:
    """Gives each batch a slot of the open group, opening one (and its fill timer) when needed."""

    terms: Terms
    next_id: Callable[[], GroupId]
    open: Group | None = None

    def place(self, now: float) -> tuple[Group, list[Action]]:
        """Return the group whose next slot the batch takes."""
        if self.open is not None:
            return self.open, []
        plan = self.terms.plan
        self.open = Group(self.next_id(), self.terms, plan.k, protect=True, opened=now)
        return self.open, [StartTimer(self.fill_timer(self.open), now + plan.fill_timeout_s)]

    def close(self) -> list[Action]:
        """The open group takes no more batches."""
        group, self.open = self.open, None
        return [] if group is None else [CancelTimer(self.fill_timer(group))]

    @staticmethod
    def fill_timer(group: Group) -> Timer:
        """The timer that closes the group early."""
        return Timer(TimerKind.FILL, group.id)
