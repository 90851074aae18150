"""A short memory of recent groups, for pictures: what happened to whom, and when."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from parm_ray.core import CallKind
from parm_ray.groups import actions as act
from parm_ray.groups import events as ev

Row = dict[str, Any]

_PREFIX = {
    CallKind.DATA: "",
    CallKind.PARITY: "parity_",
    CallKind.COPY: "copy_",
    CallKind.BACKUP: "backup_",
    CallKind.SHADOW: "shadow_",
}


class GroupTrace:
    """Keeps the timelines of the last `limit` groups; each event has `t` in seconds, and a `kind`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._groups: OrderedDict[int, list[Row]] = OrderedDict()

    def note(self, item: ev.Event | act.Action, now: float) -> None:
        """Remember an event or an action if it belongs on a timeline."""
        match item:
            case act.Dispatch(call):
                self._add(call.group, now, "dispatched", call.place)
            case act.DispatchCopy(call):
                self._add(call.group, now, f"{call.kind.name.lower()}_dispatched", call.place)
            case act.DispatchParity(call):
                self._add(call.group, now, "parity_dispatched", call.place)
            case ev.Answered(call):
                self._add(call.group, now, f"{_PREFIX[call.kind]}answered", call.place)
            case ev.CallFailed(call):
                self._add(call.group, now, f"{_PREFIX[call.kind]}failed", call.place)
            case ev.Encoded(group):
                self._add(group, now, "encoded", 0)
            case act.Resolve(group=group, slot=slot, outcome=outcome):
                self._add(group, now, "resolved", slot, outcome=outcome.value)
            case ev.Reconstructed(group, slots):
                for slot in slots:
                    self._add(group, now, "reconstructed", slot)

    def _add(self, group: int, now: float, kind: str, index: int, **more: str) -> None:
        rows = self._groups.get(group)
        if rows is None:
            rows = self._groups[group] = []
            if len(self._groups) > self._limit:
                self._groups.popitem(last=False)
        rows.append({"t": now, "kind": kind, "index": index, **more})

    def timelines(self) -> list[Row]:
        """The remembered groups, oldest first."""
        return [{"group": group, "events": rows} for group, rows in self._groups.items()]
