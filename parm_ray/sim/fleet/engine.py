"""A simulated engine: one queue, some servers, and what is wrong with it at the moment."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

from parm_ray.routing.fleet import Engine
from parm_ray.sim.fleet.setting import servers_of
from parm_ray.sim.timers import Agenda

Done = Callable[[Any, bool], None]


class SimEngine:
    """Serves calls first come, first served; `done(call, well)` is called at the end of each."""

    def __init__(self, engine: Engine, agenda: Agenda, rng: random.Random, done: Done, fail_s: float) -> None:
        self._servers, self._mean_s, self._cv2 = servers_of(engine)
        self._agenda, self._rng, self._done, self._fail_s = agenda, rng, done, fail_s
        self._waiting: deque[Any] = deque()
        self._busy = 0
        self.slow, self.failing, self.alive = 1.0, 0.0, engine.health > 0

    def arrive(self, call: Any) -> None:
        """A call reaches it. A dead engine, and a failing one for its share, refuses at once."""
        if not self.alive or (self.failing and self._rng.random() < self.failing):
            self._agenda.plan(self._agenda.now + self._fail_s, self._refused, call)
        elif self._busy < self._servers:
            self._start(call)
        else:
            self._waiting.append(call)

    def _start(self, call: Any) -> None:
        self._busy += 1
        self._agenda.plan(self._agenda.now + self._service_s(), self._ended, call)

    def _service_s(self) -> float:
        mean = self._mean_s * self.slow
        if self._cv2 == 1:
            return self._rng.expovariate(1 / mean)
        if self._cv2 == 0:
            return mean
        return self._rng.gammavariate(1 / self._cv2, mean * self._cv2)

    def _ended(self, call: Any) -> None:
        self._busy -= 1
        if self._waiting:
            self._start(self._waiting.popleft())
        self._done(call, True)

    def _refused(self, call: Any) -> None:
        self._done(call, False)
