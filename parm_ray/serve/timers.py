"""The machine's timers on the running event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from parm_ray.core import Clock
from parm_ray.groups.events import Timer


class LoopTimers:
    """fire: called on the loop with a timer that has run out and was not cancelled."""

    def __init__(self, clock: Clock, fire: Callable[[Timer], None]) -> None:
        self._clock = clock
        self._fire = fire
        self._running: dict[Timer, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._running)

    def start(self, timer: Timer, at: float) -> None:
        """Fire at `at` seconds of the clock, or soon if that has passed."""
        loop = asyncio.get_running_loop()
        self._running[timer] = loop.call_later(max(0.0, at - self._clock()), self._ring, timer)

    def cancel(self, timer: Timer) -> None:
        """Do not fire; harmless if it does not run."""
        if (handle := self._running.pop(timer, None)) is not None:
            handle.cancel()

    def _ring(self, timer: Timer) -> None:
        del self._running[timer]
        self._fire(timer)
