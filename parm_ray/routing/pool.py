"""One pool's queue and its replicas: who waits, who is busy, who gets the next call.

Pure: no I/O, time is an argument. The single queue hands a call to a replica only when one has a
free slot (the paper's discipline); round robin decides at arrival and lets the call wait there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

DISCIPLINES = ("single", "round_robin")
PROBATION_S = 0.5
MAX_PROBATION_S = 8.0

C = TypeVar("C", bound=Hashable)


class Placement(NamedTuple, Generic[C]):
    """A call that may start now, and where."""

    call: C
    replica: str


@dataclass(slots=True)
class _Replica:
    node: str
    running: dict[Hashable, Hashable] = field(default_factory=dict)
    last_used: int = 0
    crashes: int = 0
    back_at: float = 0.0


class PoolQueue(Generic[C]):
    """FIFO plus replicas with `slots` calls each. Every call belongs to a `group`.

    A call goes to a free replica that runs no other member of its group and, among those, to one on
    a node that runs none; then to the least loaded, then to the longest unused. Rules that cannot
    be kept are dropped in that order: a free replica is never left idle while a call waits.
    """

    def __init__(self, discipline: str = "single", slots: int = 1) -> None:
        if discipline not in DISCIPLINES:
            raise ValueError(f"discipline: expected one of {DISCIPLINES}, got {discipline!r}")
        self.slots = slots
        self._round_robin = discipline == "round_robin"
        self._replicas: dict[str, _Replica] = {}
        self._waiting: deque[tuple[C, Hashable]] = deque()
        self._assigned: dict[C, str] = {}
        self._uses = 0
        self._turn = 0

    # -- replicas ----------------------------------------------------------------------------

    def set_replicas(self, nodes: Mapping[str, str]) -> None:
        """The replicas that exist now, each with its node. Calls of vanished ones still `finish`."""
        for name in [n for n in self._replicas if n not in nodes]:
            del self._replicas[name]
        for name, node in nodes.items():
            self._replicas.setdefault(name, _Replica(node)).node = node
        for call, name in list(self._assigned.items()):
            if name not in nodes:
                del self._assigned[call]

    def suspend(self, replica: str, now: float) -> float | None:
        """A call died on the replica: use it last, for a while that doubles each time.

        Returns when it is free to be tried again, None if it is gone already.
        """
        entry = self._replicas.get(replica)
        if entry is None:
            return None
        entry.back_at = now + min(PROBATION_S * 2**entry.crashes, MAX_PROBATION_S)
        entry.crashes += 1
        return entry.back_at

    # -- calls -------------------------------------------------------------------------------

    def push(self, call: C, group: Hashable) -> None:
        """Queue a call."""
        self._waiting.append((call, group))

    def withdraw(self, call: C) -> bool:
        """Remove a call that has not started; whether it was there."""
        for entry in self._waiting:
            if entry[0] == call:
                self._waiting.remove(entry)
                self._assigned.pop(call, None)
                return True
        return False

    def start(self, now: float, used_nodes: Iterable[str] = ()) -> Placement[C] | None:
        """Take the next call that can start, mark its replica busy; None if nothing can.

        used_nodes: nodes that run members of that call's group in other pools.
        """
        for position, (call, group) in enumerate(self._waiting):
            replica = self._place(call, group, now, frozenset(used_nodes))
            if replica is not None:
                del self._waiting[position]
                self._assigned.pop(call, None)
                self._uses += 1
                entry = self._replicas[replica]
                entry.running[call] = group
                entry.last_used = self._uses
                return Placement(call, replica)
            if not self._round_robin:
                return None
        return None

    def finish(self, call: C, replica: str, *, crashed: bool = False) -> None:
        """The call has ended, well or not. Harmless for a replica that is gone."""
        entry = self._replicas.get(replica)
        if entry is not None:
            entry.running.pop(call, None)
            if not crashed:
                entry.crashes, entry.back_at = 0, 0.0

    # -- looking -----------------------------------------------------------------------------

    @property
    def next_call(self) -> C | None:
        """The call at the head of the queue."""
        return self._waiting[0][0] if self._waiting else None

    @property
    def queued(self) -> int:
        """Calls that wait for a replica."""
        return len(self._waiting)

    @property
    def busy(self) -> int:
        """Slots in use."""
        return sum(len(r.running) for r in self._replicas.values())

    @property
    def replicas(self) -> int:
        """Replicas that exist."""
        return len(self._replicas)

    def nodes_of(self, group: Hashable) -> set[str]:
        """Nodes that run a member of the group."""
        return {r.node for r in self._replicas.values() if group in r.running.values()}

    # -- placing -----------------------------------------------------------------------------

    def _place(self, call: C, group: Hashable, now: float, used: frozenset[str]) -> str | None:
        usable = {n: r for n, r in self._replicas.items() if r.back_at <= now}
        if self._round_robin:
            name = self._assigned.get(call)
            if name is None or name not in usable:
                if not usable:
                    return None
                name = sorted(usable)[self._turn % len(usable)]
                self._turn += 1
                self._assigned[call] = name
            return name if len(usable[name].running) < self.slots else None
        free = [n for n, r in usable.items() if len(r.running) < self.slots]
        if not free:
            return None
        nodes = used | self.nodes_of(group)

        def cost(name: str) -> tuple[bool, bool, int, int]:
            r = usable[name]
            return group in r.running.values(), r.node in nodes, len(r.running), r.last_used

        return min(free, key=cost)
