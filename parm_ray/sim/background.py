"""What else happens on the servers' nodes: shuffles of other jobs, a second model.

Both lengthen calls and neither depends on them: a server asks, when a call begins, what it will meet.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Sequence


class Shuffles:
    """Transfers between random pairs of nodes, `concurrent` of them at any time, as in the ParM paper.

    Each picks two distinct nodes and lasts, seconds, uniform in `lasting_s`; then the next one begins. The
    schedule is drawn as far as it is asked for, and depends on the seed alone.
    """

    def __init__(
        self, nodes: Sequence[str], concurrent: int, lasting_s: tuple[float, float], seed: int
    ) -> None:
        if concurrent < 0:
            raise ValueError(f"concurrent: expected >= 0, got {concurrent}")
        if len(nodes) < 2 and concurrent:
            raise ValueError(f"nodes: expected two or more, got {len(nodes)}")
        if not 0 < lasting_s[0] <= lasting_s[1]:
            raise ValueError(f"lasting_s: expected 0 < shortest <= longest seconds, got {lasting_s}")
        self._nodes = list(nodes)
        self._lasting_s = lasting_s
        self._rng = random.Random(f"shuffles/{seed}")
        self._ends = [0.0] * concurrent
        # Of each node, when its shuffles began and ended, ascending.
        self._begins: dict[str, list[float]] = {node: [] for node in nodes}
        self._stops: dict[str, list[float]] = {node: [] for node in nodes}
        if concurrent:
            for stream in range(concurrent):
                # The first one is met in its middle.
                self._next(stream, 0.0, self._rng.random())

    def on(self, node: str, at: float) -> int:
        """How many shuffles the node takes part in at `at` seconds."""
        while self._ends and (soonest := min(self._ends)) <= at:
            self._next(self._ends.index(soonest), soonest, 1.0)
        begun = bisect.bisect_right(self._begins[node], at)
        return begun - bisect.bisect_right(self._stops[node], at)

    def _next(self, stream: int, now: float, part: float) -> None:
        end = now + part * self._rng.uniform(*self._lasting_s)
        self._ends[stream] = end
        for node in self._rng.sample(self._nodes, 2):
            self._begins[node].append(now)
            bisect.insort(self._stops[node], end)


class Tenant:
    """A second model on a node: Poisson queries of fixed length that share the accelerator with ours.

    rate: queries per second on this node; each takes `service_s` seconds alone. Two calls that run together
    have half of the accelerator each.
    """

    def __init__(self, rate: float, service_s: float, seed: str) -> None:
        if not 0 <= rate * service_s < 1:
            raise ValueError(f"rate: expected 0 <= rate x service_s < 1, got {rate * service_s}")
        self._rate, self._service_s = rate, service_s
        self._rng = random.Random(f"tenant/{seed}")

    def lengthen(self, seconds: float) -> float:
        """Return how long a call of `seconds` takes beside the tenant's queries."""
        work = 0.0
        if self._rng.random() < self._rate * self._service_s:
            work = self._service_s * self._rng.random()
        # Those that come while it runs find it, too; each adds at most its own length.
        left = seconds
        while left > 0:
            gap = self._rng.expovariate(self._rate) if self._rate > 0 else float("inf")
            if gap >= left:
                break
            work += self._service_s
            left -= gap
        return seconds + min(work, seconds)
