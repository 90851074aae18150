"""Lanes: what a call is for decides which model answers it, and in which pool."""

from __future__ import annotations

from parm_ray.core import CallId, CallKind

Lane = int
"""A parity row from 0, or one of those below."""

DEPLOYED: Lane = -1
BACKUP: Lane = -2
SHADOW: Lane = -3

_LANES = {CallKind.DATA: DEPLOYED, CallKind.COPY: DEPLOYED, CallKind.BACKUP: BACKUP, CallKind.SHADOW: SHADOW}
_NAMES = {DEPLOYED: "deployed", BACKUP: "backup", SHADOW: "shadow"}


def lane_of(call: CallId) -> Lane:
    """Return the lane of a call: copies go where the first call went."""
    return call.place if call.kind is CallKind.PARITY else _LANES[call.kind]


def is_first(call: CallId) -> bool:
    """Whether it is what a batch costs without redundancy: its first call, first attempt."""
    return call.kind is CallKind.DATA and call.attempt == 0


def lane_name(lane: Lane) -> str:
    """Return what statistics call it."""
    return _NAMES.get(lane, f"parity{lane}")
