"""One pool's queue: who waits, and who gets the next call.

Pure: no I/O, time is an argument. Two kinds of work wait apart: ordinary calls, and low-priority ones
(parity queries on replicas that serve queries too), which start only when slots would stay idle.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

from parm_ray.routing.replicas import Replicas
from parm_ray.routing.reserve import Reserve

C = TypeVar("C", bound=Hashable)

UsedNodes = Callable[[Hashable], Collection[str]]
"""Given a group, the nodes that run members of it in other pools."""


def nowhere(group: Hashable) -> Collection[str]:
    """Say that no other pool runs anything."""
    return ()


class Placement(NamedTuple, Generic[C]):
    """A call that may start now, and where."""

    call: C
    replica: str


class CallQueue(Protocol[C]):
    """What a pool asks of its queue."""

    def set_replicas(self, nodes: Mapping[str, str]) -> None:
        """The replicas that exist now, each with its node. Calls of vanished ones still `finish`."""

    def suspend(self, replica: str, now: float) -> float | None:
        """A call died on the replica: none for it until the time returned. None if it is gone."""

    def push(self, call: C, group: Hashable, *, low: bool = False) -> None:
        """Queue a call; `low` = of low priority."""

    def withdraw(self, call: C) -> bool:
        """Remove a call that has not started; whether it was there."""

    def start(self, now: float, used_nodes: UsedNodes = nowhere) -> Placement[C] | None:
        """Take the next call that can start and mark its replica busy; None if nothing can."""

    def claim(self, call: C, group: Hashable, not_on: str) -> str | None:
        """Start a call that does not wait, if nobody else does: return its idle replica, None = no start.

        not_on: a replica that will not do. As for low-priority calls the reserve stays idle. The call is no
        member of its group: where the others go does not depend on it.
        """

    def finish(self, call: C, replica: str, *, crashed: bool = False) -> None:
        """The call has ended, well or not. Harmless for a replica that is gone."""

    def reserve(self, share: float | None) -> None:
        """Leave that share of all slots idle when low-priority work starts, from now on; see `Reserve`."""

    @property
    def queued(self) -> int:
        """Ordinary calls that wait for a replica."""

    @property
    def queued_low(self) -> int:
        """Low-priority calls that wait."""

    @property
    def busy(self) -> int:
        """Slots in use."""

    @property
    def idle(self) -> int:
        """Slots that could take a call now."""

    @property
    def replicas(self) -> int:
        """Replicas that exist."""

    @property
    def slots(self) -> int:
        """Calls a replica takes at a time."""

    def nodes_of(self, group: Hashable) -> set[str]:
        """Nodes that run a member of the group."""


class OverReplicas(Generic[C]):
    """The part of a queue that only looks at its replicas. reserve: see `SingleQueue`."""

    def __init__(self, slots: int, reserve: float | None) -> None:
        self._replicas: Replicas[C] = Replicas(slots)
        self._reserve = Reserve(reserve)
        self._running_low: set[C] = set()

    def finish(self, call: C, replica: str, *, crashed: bool = False) -> None:
        self._running_low.discard(call)
        self._replicas.end(call, replica, crashed=crashed)

    def claim(self, call: C, group: Hashable, not_on: str) -> str | None:
        if self.queued or self.queued_low or not self._low_may_start():
            return None
        replica = self._replicas.pick(group)
        if replica is None or replica == not_on:
            return None
        self._begin_low(call, call, replica)
        return replica

    def reserve(self, share: float | None) -> None:
        self._reserve.use(share)

    def _ordinary_came(self) -> None:
        """Let the reserve know how busy an ordinary call finds the pool; a replica that rests is no use."""
        everything = len(self._replicas) * self.slots
        if self._reserve.follows and everything:
            low = len(self._running_low)
            self._reserve.arrived(max(0, everything - self._replicas.idle - low) / everything)

    def _low_may_start(self) -> bool:
        """Whether a low-priority call that starts now leaves enough slots idle."""
        return self._replicas.idle - 1 >= self._reserve.slots(len(self._replicas) * self.slots)

    def _begin_low(self, call: C, group: Hashable, replica: str) -> Placement[C]:
        self._running_low.add(call)
        self._replicas.begin(call, group, replica)
        return Placement(call, replica)

    @property
    def queued(self) -> int:
        raise NotImplementedError

    @property
    def queued_low(self) -> int:
        raise NotImplementedError

    @property
    def busy(self) -> int:
        return self._replicas.busy

    @property
    def idle(self) -> int:
        return self._replicas.idle

    @property
    def replicas(self) -> int:
        return len(self._replicas)

    @property
    def slots(self) -> int:
        return self._replicas.slots

    def nodes_of(self, group: Hashable) -> set[str]:
        return self._replicas.nodes_of(group)


class SingleQueue(OverReplicas[C]):
    """One FIFO: a call goes to a replica only when one has a free slot (the paper's discipline).

    It goes to a free replica that runs no other member of its group and, among those, to one on a node
    that runs none; then to the least loaded, then to the longest unused. Rules that cannot be kept are
    dropped in that order: a free replica is never left idle while an ordinary call waits.

    reserve: the share 0..1 of all slots that starting low-priority work must leave idle, None = as the
    load needs; see `Reserve` and `RedundancyPlan.idle_reserve`.
    """

    def __init__(self, slots: int = 1, reserve: float | None = 0.0) -> None:
        super().__init__(slots, reserve)
        self._waiting: OrderedDict[C, Hashable] = OrderedDict()
        self._low: OrderedDict[C, Hashable] = OrderedDict()

    def set_replicas(self, nodes: Mapping[str, str]) -> None:
        self._replicas.replace(nodes)

    def suspend(self, replica: str, now: float) -> float | None:
        return self._replicas.suspend(replica, now)

    def push(self, call: C, group: Hashable, *, low: bool = False) -> None:
        if low:
            self._low[call] = group
        else:
            self._ordinary_came()
            self._waiting[call] = group

    def withdraw(self, call: C) -> bool:
        for waiting in (self._waiting, self._low):
            if call in waiting:
                del waiting[call]
                return True
        return False

    def start(self, now: float, used_nodes: UsedNodes = nowhere) -> Placement[C] | None:
        self._replicas.wake(now)
        waiting = self._waiting
        if not waiting:
            waiting = self._low
            if not waiting or not self._low_may_start():
                return None
        call, group = next(iter(waiting.items()))
        replica = self._replicas.pick(group, used_nodes(group))
        if replica is None:
            return None
        del waiting[call]
        if waiting is self._low:
            return self._begin_low(call, group, replica)
        self._replicas.begin(call, group, replica)
        return Placement(call, replica)

    @property
    def queued(self) -> int:
        return len(self._waiting)

    @property
    def queued_low(self) -> int:
        return len(self._low)
