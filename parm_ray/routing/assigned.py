"""Queues that choose a call's replica when it arrives; it waits there, whatever happens elsewhere.

What most load balancers do, and why their tails are long: a call behind a slow one stays behind it.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import TypeVar

from parm_ray.core import DISCIPLINES
from parm_ray.routing.pool import CallQueue, OverReplicas, Placement, SingleQueue, UsedNodes, nowhere

C = TypeVar("C", bound=Hashable)


class AssignedQueue(OverReplicas[C]):
    """A FIFO per replica. rule: "round_robin", "random", or "power_of_two" (the shorter of two drawn).

    Low-priority calls are not assigned: they wait in one FIFO for a replica with nothing else to do.
    A call whose replica vanishes or is put on probation is assigned again. rng: of the draws. reserve: as
    for `SingleQueue`.
    """

    def __init__(
        self, rule: str, slots: int = 1, rng: random.Random | None = None, reserve: float | None = 0.0
    ) -> None:
        super().__init__(slots, reserve)
        self._rule = rule
        self._rng = rng or random.Random(0)
        self._lines: dict[str, OrderedDict[C, Hashable]] = {}
        self._line_of: dict[C, str] = {}
        self._homeless: OrderedDict[C, Hashable] = OrderedDict()
        self._low: OrderedDict[C, Hashable] = OrderedDict()
        self._startable: OrderedDict[str, None] = OrderedDict()
        self._usable: list[str] | None = None
        self._turn = 0

    def set_replicas(self, nodes: Mapping[str, str]) -> None:
        for name in self._replicas.replace(nodes):
            self._disband(name)
        for name in nodes:
            self._lines.setdefault(name, OrderedDict())
        self._usable = None
        self._house()

    def suspend(self, replica: str, now: float) -> float | None:
        back_at = self._replicas.suspend(replica, now)
        if back_at is not None:
            self._disband(replica)
            self._lines[replica] = OrderedDict()
            self._usable = None
            self._house()
        return back_at

    def push(self, call: C, group: Hashable, *, low: bool = False) -> None:
        if low:
            self._low[call] = group
        else:
            self._ordinary_came()
            self._homeless[call] = group
            self._house()

    def withdraw(self, call: C) -> bool:
        name = self._line_of.pop(call, None)
        if name is not None:
            del self._lines[name][call]
            return True
        for waiting in (self._homeless, self._low):
            if call in waiting:
                del waiting[call]
                return True
        return False

    def start(self, now: float, used_nodes: UsedNodes = nowhere) -> Placement[C] | None:
        if self._replicas.wake(now):
            self._usable = None
        self._house()
        while self._startable:
            name = next(iter(self._startable))
            line = self._lines.get(name)
            if not line or name not in self._replicas or not self._replicas.is_free(name):
                del self._startable[name]
                continue
            call, group = line.popitem(last=False)
            del self._line_of[call]
            self._replicas.begin(call, group, name)
            return Placement(call, name)
        if not self._low or not self._low_may_start():
            return None
        call, group = next(iter(self._low.items()))
        free = self._replicas.pick(group, used_nodes(group))
        if free is None or self._lines[free]:
            return None
        del self._low[call]
        return self._begin_low(call, group, free)

    def finish(self, call: C, replica: str, *, crashed: bool = False) -> None:
        super().finish(call, replica, crashed=crashed)
        self._startable[replica] = None

    def _house(self) -> None:
        """Give every call without a line one, if there is a usable replica."""
        if not self._homeless:
            return
        if self._usable is None:
            self._usable = self._replicas.usable()
        while self._homeless and self._usable:
            call, group = self._homeless.popitem(last=False)
            name = self._choose(self._usable)
            self._lines[name][call] = group
            self._line_of[call] = name
            self._startable[name] = None

    def _choose(self, usable: list[str]) -> str:
        if self._rule == "round_robin":
            self._turn += 1
            return usable[(self._turn - 1) % len(usable)]
        first = self._rng.choice(usable)
        if self._rule == "random" or len(usable) == 1:
            return first
        second = first
        while second == first:
            second = self._rng.choice(usable)
        return min(first, second, key=self._length)

    def _length(self, name: str) -> int:
        return len(self._lines[name]) + self._replicas.load(name)

    def _disband(self, name: str) -> None:
        for call, group in self._lines.pop(name, OrderedDict[C, Hashable]()).items():
            del self._line_of[call]
            self._homeless[call] = group

    @property
    def queued(self) -> int:
        return len(self._line_of) + len(self._homeless)

    @property
    def queued_low(self) -> int:
        return len(self._low)


def make_queue(
    discipline: str = "single",
    slots: int = 1,
    *,
    reserve: float | None = 0.0,
    rng: random.Random | None = None,
) -> CallQueue[C]:
    """Return the queue of that discipline. Raises ValueError for another name."""
    if discipline not in DISCIPLINES:
        raise ValueError(f"discipline: expected one of {DISCIPLINES}, got {discipline!r}")
    if discipline == "single":
        return SingleQueue(slots, reserve)
    return AssignedQueue(discipline, slots, rng, reserve)
