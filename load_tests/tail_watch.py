"""Notices, while queries are still under way, that a tail latency can no longer be met."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from load_tests.client import Reply, SendFailed, Shot


class TailWatch:
    """Counts the queries that are late for good: answered after the limit, failed, or not answered by it.

    The nearest-rank q-percentile of n latencies is within the limit if ceil(q n) of them are, so it is
    lost with one late query more than n - ceil(q n): with the sixth of 500, for p99.
    """

    def __init__(self, planned: Sequence[float], limit_s: float, q: float = 0.99) -> None:
        """`planned`: all planned times of the run, seconds, ascending. ValueError for a bad limit or q."""
        if not limit_s > 0:
            raise ValueError(f"limit_s: expected seconds > 0, got {limit_s}")
        if not 0 < q <= 1:
            raise ValueError(f"q: expected 0 < q <= 1, got {q}")
        n = len(planned)
        # The slack is that of parm_ray.stats.percentile, so that both mean the same query.
        self.allowed = n - max(1, math.ceil(q * n * (1 - 1e-12)))
        self._planned = planned
        self._limit_s = limit_s
        self._in_time: set[int] = set()
        self._late: set[int] = set()
        self._due = 0

    @property
    def late(self) -> int:
        """Queries known to be late so far."""
        return len(self._late)

    def ended(self, i: int, shot: Shot[Any]) -> None:
        """Query i has ended."""
        result = shot.result
        failed = isinstance(result, SendFailed) or (isinstance(result, Reply) and result.status != 200)
        on_time = not failed and shot.done - shot.planned <= self._limit_s
        (self._in_time if on_time else self._late).add(i)

    def hopeless(self, now: float) -> bool:
        """Whether the percentile is lost at `now`, in seconds from the start of the run."""
        # Planned times ascend, so those due by now are a prefix. What is not sent yet counts as well.
        while self._due < len(self._planned) and self._planned[self._due] + self._limit_s < now:
            if self._due not in self._in_time:
                self._late.add(self._due)
            self._in_time.discard(self._due)
            self._due += 1
        return self.late > self.allowed
