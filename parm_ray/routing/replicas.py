"""The replicas of one pool: who exists, what each runs, who is free, who is on probation.

Everything that is asked for each call takes a time that does not grow with the number of replicas.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

PROBATION_S = 0.5
MAX_PROBATION_S = 8.0

C = TypeVar("C", bound=Hashable)


@dataclass(slots=True)
class _Replica:
    node: str
    running: dict[Hashable, Hashable] = field(default_factory=dict)
    crashes: int = 0
    back_at: float = 0.0
    resting: bool = False


class Replicas(Generic[C]):
    """Replicas with `slots` calls each. Every running call belongs to a group."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._all: dict[str, _Replica] = {}
        # By load, those that could take a call; within a load, the longest unused first.
        self._free: list[OrderedDict[str, None]] = [OrderedDict() for _ in range(slots)]
        self._resting: set[str] = set()
        self._of_group: dict[Hashable, Counter[str]] = {}
        self._nodes: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, name: str) -> bool:
        return name in self._all

    # -- who exists --------------------------------------------------------------------------

    def replace(self, nodes: Mapping[str, str]) -> list[str]:
        """Take over the replicas that exist now, each with its node; return those that vanished."""
        gone = [name for name in self._all if name not in nodes]
        for name in gone:
            replica = self._all.pop(name)
            self._resting.discard(name)
            for bucket in self._free:
                bucket.pop(name, None)
            for group in replica.running.values():
                self._left(group, name)
        for name, node in nodes.items():
            if name in self._all:
                self._all[name].node = node
            else:
                self._all[name] = _Replica(node)
                self._free[0][name] = None
        self._nodes = Counter(replica.node for replica in self._all.values())
        return gone

    def suspend(self, name: str, now: float) -> float | None:
        """A call died on it: give it none for a while that doubles each time; return until when.

        None if it is gone already.
        """
        replica = self._all.get(name)
        if replica is None:
            return None
        replica.back_at = now + min(PROBATION_S * 2**replica.crashes, MAX_PROBATION_S)
        replica.crashes += 1
        replica.resting = True
        self._resting.add(name)
        for bucket in self._free:
            bucket.pop(name, None)
        return replica.back_at

    def wake(self, now: float) -> bool:
        """End the probations whose time has come; whether there were any."""
        if not self._resting:
            return False
        rested = [name for name in self._resting if self._all[name].back_at <= now]
        for name in rested:
            self._resting.discard(name)
            self._all[name].resting = False
            self._offer(name)
        return bool(rested)

    # -- what runs ---------------------------------------------------------------------------

    def begin(self, call: C, group: Hashable, name: str) -> None:
        """A call starts on a replica that has a free slot."""
        replica = self._all[name]
        del self._free[len(replica.running)][name]
        replica.running[call] = group
        self._of_group.setdefault(group, Counter())[name] += 1
        self._offer(name)

    def end(self, call: C, name: str, *, crashed: bool = False) -> None:
        """The call has ended, well or not. Harmless for a replica that is gone."""
        replica = self._all.get(name)
        if replica is None:
            return
        if call in replica.running:
            if not replica.resting and len(replica.running) < self.slots:
                del self._free[len(replica.running)][name]
            self._left(replica.running.pop(call), name)
            self._offer(name)
        if not crashed:
            replica.crashes = 0
            if replica.resting:
                replica.back_at = 0.0

    def _offer(self, name: str) -> None:
        replica = self._all[name]
        if not replica.resting and len(replica.running) < self.slots:
            self._free[len(replica.running)][name] = None

    def _left(self, group: Hashable, name: str) -> None:
        members = self._of_group.get(group)
        if members is not None:
            members[name] -= 1
            if members[name] <= 0:
                del members[name]
            if not members:
                del self._of_group[group]

    # -- looking -----------------------------------------------------------------------------

    @property
    def busy(self) -> int:
        """Slots in use."""
        return sum(len(replica.running) for replica in self._all.values())

    @property
    def idle(self) -> int:
        """Slots that could take a call now."""
        return sum(len(names) * (self.slots - load) for load, names in enumerate(self._free))

    def load(self, name: str) -> int:
        """Calls that run on it."""
        return len(self._all[name].running)

    def usable(self) -> list[str]:
        """Those not on probation, in the order of their names."""
        return sorted(name for name in self._all if name not in self._resting)

    def is_free(self, name: str) -> bool:
        """Whether it could take a call now."""
        replica = self._all[name]
        return not replica.resting and len(replica.running) < self.slots

    def nodes_of(self, group: Hashable) -> set[str]:
        """Nodes that run a member of the group."""
        return {self._all[name].node for name in self._of_group.get(group, ())}

    def pick(self, group: Hashable, used_nodes: Collection[str] = ()) -> str | None:
        """Return the free replica that is best for a member of the group, None if none is free.

        Best is: runs no other member, on a node that runs none (nor is in `used_nodes`), least loaded,
        longest unused; what cannot be had is given up from the last to the first.
        """
        members = self._of_group.get(group)
        if not members and not used_nodes:
            return next((name for bucket in self._free for name in bucket), None)
        running: Collection[str] = members or ()
        nodes = {*used_nodes, *(self._all[name].node for name in running)}
        if all(node in nodes for node in self._nodes):
            nodes = set()
        best, best_cost = None, (True, True)
        for bucket in self._free:
            for name in bucket:
                cost = (name in running, self._all[name].node in nodes)
                if cost == (False, False):
                    return name
                if best is None or cost < best_cost:
                    best, best_cost = name, cost
        return best
