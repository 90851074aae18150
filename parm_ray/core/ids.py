"""Identifiers. A call is one batch sent to one pool: a slot's data batch, a copy of it, or a parity row."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, NewType

QueryId = NewType("QueryId", int)
GroupId = NewType("GroupId", int)


class CallKind(IntEnum):
    """What a call is for. (An IntEnum: ids are hashed for every event.)"""

    DATA = 0
    PARITY = 1
    COPY = 2
    BACKUP = 3
    SHADOW = 4


class CallId(NamedTuple):
    """Names one unit of pool work.

    kind: DATA, a slot's batch; COPY, the same batch again, to the deployed pool; BACKUP, the same batch
    to the backup model; SHADOW, the same batch to the deployed pool to measure how long it takes there, which
    pools alone know of; PARITY, a parity query. place: the slot (0..k-1), or the parity row (0..r-1).
    attempt: re-sends of a data call after a crash, from 0; the number of a copy, from 0.
    """

    group: GroupId
    place: int
    kind: CallKind = CallKind.DATA
    attempt: int = 0

    @property
    def parity(self) -> bool:
        """Whether it is a parity query."""
        return self.kind is CallKind.PARITY
