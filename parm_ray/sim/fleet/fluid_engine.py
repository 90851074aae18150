"""A simulated engine as a fluid: the mean number of requests in it, in place of each of them.

The pointwise stationary fluid flow approximation (Wang, Tipper and Banerjee, 1996): while there are L
requests in it on average, it ends as many per second as it would in the long run with L there, which is the
load y with y f(y) = L (Little's law). In steady state that is exact, for any latency model; beyond capacity
the queue grows as it must; on the way between it is as good as the assumption.
"""

from __future__ import annotations

import numpy as np

from parm_ray.routing.fleet import Engine

# Of its limit, the loads that are tabulated: dense near the limit, where the number grows without bound.
_LOADS = 1 - np.concatenate([np.linspace(1, 0.1, 200), np.geomspace(0.1, 1e-6, 200)[1:]])


class FluidEngine:
    """One engine. `number`: requests that are there; what is wrong with it is as of a `SimEngine`."""

    def __init__(self, engine: Engine) -> None:
        self.slow, self.failing, self.alive = 1.0, 0.0, engine.health > 0
        self.number = 0.0
        # One that was declared dead is as it would be whole, should it come to life.
        whole = engine if engine.health else Engine(engine.name, engine.latency)
        self._loads = whole.limit * _LOADS
        numbers = np.array([whole.total(load) for load in self._loads.tolist()])
        # A profile's delay may be flat: time still has to pass.
        self._numbers = np.maximum.accumulate(numbers + 1e-12 * np.arange(len(numbers)))

    def step(self, arrivals: float, seconds: float, most: float) -> tuple[float, float, float]:
        """Let time pass; return how many requests ended, how long they took (seconds), how many were refused.

        arrivals: how many come meanwhile. most: how many there may be at the end; more are turned away.
        """
        before = self.number + arrivals
        # Implicit Euler, which is stable however much longer an interval is than a request: the number at the
        # end is the L for which L + seconds * y(L) is what there was and came.
        ends = seconds / self.slow * self._loads
        needed = self._numbers + ends
        if before >= needed[-1]:
            self.number = before - float(ends[-1])
        else:
            self.number = float(np.interp(before, needed, self._numbers))
        ended = before - self.number
        refused = max(0.0, self.number - most)
        self.number -= refused
        if ended <= 0:
            return 0.0, 0.0, refused
        return ended, seconds * self.number / ended, refused
