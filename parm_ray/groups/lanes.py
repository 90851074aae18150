"""Lanes: what a call is for decides which model answers it, and in which pool."""

from __future__ import annotations

from parm_ray.core import CallId, CallKind

Lane = int
"""A parity row from 0, or one of the two below."""

DEPLOYED: Lane = -1
BACKUP: Lane = -2


def lane_of(call: CallId) -> Lane:
    """Return the lane of a call: copies go where the first call went."""
    if call.kind is CallKind.PARITY:
        return call.place
    return BACKUP if call.kind is CallKind.BACKUP else DEPLOYED


def is_first(call: CallId) -> bool:
    """Whether it is what a batch costs without redundancy: its first call, first attempt."""
    return call.kind is CallKind.DATA and call.attempt == 0


def lane_name(lane: Lane) -> str:
    """Return what statistics call it."""
    return {DEPLOYED: "deployed", BACKUP: "backup"}.get(lane, f"parity{lane}")
