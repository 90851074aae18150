"""What is to happen, in order of virtual time: ends of calls, timers, arrivals."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

from parm_ray.groups.events import Timer, TimerKind

Then = Callable[[Any], None]


class Agenda:
    """A heap of (time, what to call, with what). Equal times happen in the order they were planned."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Then, Any]] = []
        self._order = count()

    def plan(self, at: float, then: Then, what: Any) -> None:
        """Call `then(what)` at `at` seconds, or now if that has passed."""
        heapq.heappush(self._heap, (max(at, self.now), next(self._order), then, what))

    def run(self) -> None:
        """Carry on until nothing is planned."""
        heap = self._heap
        while heap:
            self.now, _, then, what = heapq.heappop(heap)
            then(what)


class MachineTimers:
    """The machine's timers on an agenda. Nearly all are cancelled, so nothing is done to cancel one.

    Deadlines wait in a queue of their own: they come in order, and only the first needs a place on the
    agenda. fire: called with a timer that has run out and was not cancelled.
    """

    def __init__(self, agenda: Agenda, fire: Callable[[Timer], None]) -> None:
        self._agenda = agenda
        self._fire = fire
        self._due: dict[Timer, float] = {}
        self._deadlines: deque[tuple[float, Timer]] = deque()
        self._watching = False

    def start(self, timer: Timer, at: float) -> None:
        """Fire at `at` seconds."""
        self._due[timer] = at
        if timer.kind is TimerKind.DEADLINE and (not self._deadlines or at >= self._deadlines[-1][0]):
            self._deadlines.append((at, timer))
            self._watch()
        else:
            self._agenda.plan(at, self._ring, (at, timer))

    def cancel(self, timer: Timer) -> None:
        """Do not fire; harmless if it does not run."""
        self._due.pop(timer, None)

    def _ring(self, planned: tuple[float, Timer]) -> None:
        at, timer = planned
        if self._due.get(timer) == at:
            del self._due[timer]
            self._fire(timer)

    def _watch(self) -> None:
        if not self._watching and self._deadlines:
            self._watching = True
            self._agenda.plan(self._deadlines[0][0], self._first_deadline, None)

    def _first_deadline(self, _: None) -> None:
        self._watching = False
        self._ring(self._deadlines.popleft())
        while self._deadlines and self._due.get(self._deadlines[0][1]) != self._deadlines[0][0]:
            self._deadlines.popleft()
        self._watch()
