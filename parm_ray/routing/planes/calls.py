"""Calls of one front end: how many are out, how they end, whom they show to fail again and again."""

from __future__ import annotations

import numpy as np

from parm_ray.routing.planes.signals import Seen

# An engine that failed so often in a row keeps that part of its weight until a call succeeds, and after as
# many again that part of it once more, down to the least.
FAILURES_IN_ROW, KEPT, LEAST_KEPT = 5, 0.1, 0.01


class Calls:
    """Of `engines` engines. `in_flight`: calls that are out at each; `guard`: what is left of its weight."""

    def __init__(self, engines: int) -> None:
        self.in_flight = np.zeros(engines)
        self.guard = np.ones(engines)
        # Of what is in flight, the calls that wait for the engine, and the sum of their starts.
        self._waiting, self._since = np.zeros(engines), np.zeros(engines)
        self._in_row = np.zeros(engines, dtype=int)
        self._seen = [Seen()] * engines

    def begin(self, engine: int, now: float) -> None:
        """A call is sent to an engine."""
        self.in_flight[engine] += 1
        self.resume(engine, now)

    def hold(self, engine: int, began: float) -> None:
        """A call is with its reader: as long as that takes it does not wait for the engine."""
        self._waiting[engine] -= 1
        self._since[engine] -= began

    def resume(self, engine: int, began: float) -> None:
        """A call waits for the engine, as if it had begun then."""
        self._waiting[engine] += 1
        self._since[engine] += began

    def end(self, engine: int, began: float, now: float, outcome: bool | None, lost: bool = False) -> bool:
        """A call that waits, as if it had begun then, has ended: well, badly, or (None) it was withdrawn.

        lost: as another engine was faster. Else a withdrawn call says nothing of the engine. Return whether
        the engine's guard has changed.
        """
        self.in_flight[engine] = max(0.0, self.in_flight[engine] - 1)
        self.hold(engine, began)
        took = max(0.0, now - began)
        if outcome is None:
            if lost:
                self._seen[engine] += Seen(given_up=1, given_up_s=took)
            return False
        self._seen[engine] += Seen(1, took) if outcome else Seen(failures=1)
        self._in_row[engine] = 0 if outcome else self._in_row[engine] + 1
        # By its weight alone: who fails at once has nothing in flight, and looks like the less loaded one.
        before = self.guard[engine]
        self.guard[engine] = max(LEAST_KEPT, KEPT ** (self._in_row[engine] // FAILURES_IN_ROW))
        return bool(self.guard[engine] != before)

    def taken(self, now: float) -> list[Seen]:
        """Return what was seen of each engine since this was last called, what is out now included."""
        waited = (now * self._waiting - self._since).tolist()
        found = [
            seen + Seen(waiting=count, waited_s=max(0.0, age))
            for seen, count, age in zip(self._seen, self._waiting.tolist(), waited, strict=True)
        ]
        self._seen = [Seen()] * len(self._seen)
        return found
