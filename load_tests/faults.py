"""Faults at planned times: a replica that stalls, one that dies, one whose node is cut off.

SIGSTOP makes a perfect straggler: the process keeps its connections, answers nothing, and takes up
where it was at SIGCONT. SIGKILL is a crash. A pulled cable loses packets, and nobody is told.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from parm_ray.core import Clock, monotonic

Kind = Literal["stall", "resume", "kill", "cut", "cut_end"]

SetLink = Callable[[int, bool], None]
"""Pull the cable of the node that a process is on (False), or plug it in again (True)."""

ENDS: dict[Kind, Kind] = {"stall": "resume", "cut": "cut_end"}
"""What ends a fault that lasts."""

_SIGNALS = {"stall": signal.SIGSTOP, "resume": signal.SIGCONT, "kill": signal.SIGKILL}


@dataclass(frozen=True, slots=True)
class Fault:
    """One planned fault: `at` seconds into the run; a stall or a cut ends after `seconds`."""

    kind: Literal["stall", "kill", "cut"]
    at: float
    pid: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class FaultEvent:
    """What was done, and when: `t` seconds into the run."""

    t: float
    kind: Kind
    pid: int


class NotOurs(RuntimeError):
    """A fault was aimed at a process that is not (or no longer) part of the tested system."""


async def inject(
    faults: Sequence[Fault],
    *,
    start: float,
    owns: Callable[[int], bool],
    clock: Clock = monotonic,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    send_signal: Callable[[int, int], None] = os.kill,
    set_link: SetLink | None = None,
) -> list[FaultEvent]:
    """Carry out the faults at `start + at` (seconds of `clock`) and return what was done.

    `owns(pid)` is asked before anything is done to a process; NotOurs is raised if it says no, or where
    there are no links for a cut. Whatever was stopped or cut is let go on however this ends; a process that
    has died meanwhile (Serve replaces one that stalls for long) has nothing to go on with, its node has.
    """

    def carry_out(kind: Kind, pid: int) -> None:
        ends = kind in ENDS.values()
        if not ends and not owns(pid):
            raise NotOurs(f"{kind}: process {pid} is not part of the tested system")
        if kind in _SIGNALS:
            if owns(pid):
                send_signal(pid, _SIGNALS[kind])
        elif set_link is None:
            raise NotOurs(f"{kind}: there is no link of process {pid}'s node to cut")
        else:
            set_link(pid, ends)

    steps: list[tuple[float, Kind, int]] = []
    for fault in faults:
        steps.append((fault.at, fault.kind, fault.pid))
        if (end := ENDS.get(fault.kind)) is not None:
            steps.append((fault.at + fault.seconds, end, fault.pid))
    done: list[FaultEvent] = []
    to_end: set[tuple[Kind, int]] = set()
    try:
        # What ends comes before what begins at the same time, or it would end that.
        for at, kind, pid in sorted(steps, key=lambda step: (step[0], step[1] not in ENDS.values())):
            await sleep(max(0.0, start + at - clock()))
            carry_out(kind, pid)
            if (end := ENDS.get(kind)) is not None:
                to_end.add((end, pid))
            to_end.discard((kind, pid))
            done.append(FaultEvent(clock() - start, kind, pid))
    finally:
        for kind, pid in to_end:
            carry_out(kind, pid)
    return done
