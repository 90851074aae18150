"""What the machine remembers: open groups, and where each unresolved query is.

Look-ups raise IllegalEvent, naming what was asked for, before anything has changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from parm_ray.core import CallId, GroupId, IllegalEvent, QueryId
from parm_ray.groups.group import Call, Decoding, Group
from parm_ray.groups.transitions import Phase


@dataclass(slots=True)
class Register:
    """Open groups by id; `places` maps an unresolved query to (group, slot), None while batching."""

    groups: dict[GroupId, Group] = field(default_factory=dict)
    places: dict[QueryId, tuple[GroupId, int] | None] = field(default_factory=dict)

    def call(self, id: CallId) -> tuple[Group, Call]:
        """The group and the outstanding call of that id."""
        group = self.groups.get(id.group)
        call = None if group is None else group.call(id)
        if group is None or call is None:
            raise IllegalEvent(f"{id}: no such call is outstanding")
        return group, call

    def encoding(self, id: GroupId) -> Group:
        """The group, which must be waiting for its encoder."""
        group = self.groups.get(id)
        if group is None or not group.encoding:
            raise IllegalEvent(f"group {id}: nothing is being encoded")
        return group

    def decoding(self, id: GroupId, slots: tuple[int, ...]) -> Group:
        """The group, all of whose `slots` must be waiting for the decoder."""
        group = self.groups.get(id)
        if group is None or any(
            not 0 <= i < len(group.slots) or group.slots[i].decoding is not Decoding.PENDING for i in slots
        ):
            raise IllegalEvent(f"group {id}, slots {slots}: not being decoded")
        return group

    def prune(self, group: Group) -> None:
        """Forget the group's resolved queries, and the group itself when it is done."""
        for query in group.newly_resolved:
            self.places.pop(query, None)
        group.newly_resolved.clear()
        if group.phase is Phase.FORGOTTEN:
            del self.groups[group.id]
