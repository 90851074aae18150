"""Emulated losses: of every coding group, one slot's own answer is kept back until it is too late.

For measuring what reconstructions are worth: the deployed model, the parity model, encoder and
decoder all do their real work, only the way of one answer from the pool to its group is made longer.
"""

from __future__ import annotations

from collections.abc import Callable

from parm_ray.core import GroupId
from parm_ray.serve.pool import Ended


class OneLossPerGroup:
    """Stands between the deployed pool and the driver. The slots take turns: group g loses slot g mod k.

    deliver: the driver's `ended`. waits: whether a slot of a coding group has unresolved queries; an
    answer that nobody waits for, or of a batch that opted out of groups, is never kept back.
    """

    def __init__(
        self, k: int, deliver: Callable[[Ended], None], waits: Callable[[GroupId, int], bool]
    ) -> None:
        self._k = k
        self._deliver = deliver
        self._waits = waits
        self._held: dict[tuple[GroupId, int], Ended] = {}

    def ended(self, ended: Ended) -> None:
        """A call of the deployed pool has ended; its replica is free either way."""
        group, slot = ended.call.group, ended.call.place
        # A call that failed has lost its answer already.
        if ended.outputs is not None and slot == group % self._k and self._waits(group, slot):
            self._held[group, slot] = ended
        else:
            self._deliver(ended)

    def resolved(self, group: GroupId, slot: int) -> None:
        """The slot's queries have been answered, or given up: its own answer may come now, late."""
        held = self._held.pop((group, slot), None)
        if held is not None:
            self._deliver(held)

    @property
    def held(self) -> int:
        """Answers that are kept back now."""
        return len(self._held)
