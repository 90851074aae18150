"""Shadow calls: pairs of service times of the same batch on two replicas, for measuring alone.

Whether copies pay depends on whether two replicas take long over the same query, which no sample of single
calls tells. So a small share of the batches is run on a second replica, too, when the first call starts.

It lives in the pool, beside the group machine: no answer of a shadow is used, and none of its events changes
what becomes of a query, so the machine has nothing to decide; and the simulator, which knows the law of its
service times, has nothing to learn from one. What is decided (which batch, within what budget) is
`redundancy.shadow`, and where it may run is the queue's to say, `CallQueue.claim`.

Batches that plans send again are shadowed like others. A pool never stops a call that runs, so the first
call goes on to its end whoever answers first; to leave out the batches that were hedged would leave out the
slow ones.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from parm_ray.core import CallId, CallKind
from parm_ray.groups.lanes import is_first
from parm_ray.redundancy.shadow import ShadowDraw

PAIRS_KEPT = 2000

ShadowResult = Literal["paired", "cut_off", "no_replica"]
"""Both calls ended by themselves; one failed or lost its replica; no other replica was idle: not sent."""

RESULTS: tuple[ShadowResult, ...] = ("paired", "cut_off", "no_replica")


class Pair(NamedTuple):
    """Seconds in service of one batch's first call and of its shadow; ended_at: when both had ended."""

    ended_at: float
    first_s: float
    shadow_s: float


@dataclass(slots=True)
class _Open:
    first_s: float | None = None
    shadow_s: float | None = None
    lost: bool = False
    ended: int = 0


class Shadows:
    """Draws batches to shadow and keeps the pairs. count: told what became of each shadow, once."""

    def __init__(self, draw: ShadowDraw, count: Callable[[ShadowResult], None] = lambda result: None) -> None:
        self.pairs: deque[Pair] = deque(maxlen=PAIRS_KEPT)
        self.results: Counter[str] = Counter(dict.fromkeys(RESULTS, 0))
        self._draw, self._count = draw, count
        self._open: dict[CallId, _Open] = {}

    def wanted(self, call: CallId, now: float) -> CallId | None:
        """A call starts: return the id of its shadow, None = it gets none. Answer by `sent` or `not_sent`."""
        if not is_first(call) or not self._draw.wanted(now):
            return None
        return call._replace(kind=CallKind.SHADOW)

    def sent(self, shadow: CallId) -> None:
        """It runs."""
        self._open[shadow] = _Open()

    def not_sent(self) -> None:
        """No other replica was idle."""
        self._draw.not_sent()
        self._tell("no_replica")

    def ended(self, call: CallId, now: float, seconds: float, *, answered: bool) -> None:
        """Any call has ended, `seconds` after it started; `answered`: by itself, with outputs."""
        if call.kind is CallKind.SHADOW:
            key = call
        elif self._open and is_first(call):
            key = call._replace(kind=CallKind.SHADOW)
        else:
            return
        if (pair := self._open.get(key)) is None:
            return
        if not answered:
            pair.lost = True
        elif call.kind is CallKind.SHADOW:
            pair.shadow_s = seconds
        else:
            pair.first_s = seconds
        pair.ended += 1
        if pair.ended == 2:
            del self._open[key]
            if pair.first_s is not None and pair.shadow_s is not None:
                self.pairs.append(Pair(now, pair.first_s, pair.shadow_s))
            self._tell("cut_off" if pair.lost else "paired")

    @property
    def open(self) -> int:
        """Shadows of which a call still runs."""
        return len(self._open)

    def _tell(self, result: ShadowResult) -> None:
        self.results[result] += 1
        self._count(result)
