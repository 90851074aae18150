"""Identifiers. A call is one batch sent to one pool: a slot's data batch or a parity row."""

from __future__ import annotations

from typing import NamedTuple, NewType

QueryId = NewType("QueryId", int)
GroupId = NewType("GroupId", int)


class CallId(NamedTuple):
    """Names one unit of pool work.

    Data calls have `parity=False` and `place` = slot (0..k-1); parity calls have `parity=True`
    and `place` = parity row (0..r-1). `attempt` counts re-sends after a crash, from 0.
    """

    group: GroupId
    place: int
    parity: bool = False
    attempt: int = 0
