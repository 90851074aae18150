"""Faults at planned times: a replica that stalls, a replica that dies.

SIGSTOP makes a perfect straggler: the process keeps its connections, answers nothing, and takes up
where it was at SIGCONT. SIGKILL is a crash.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from parm_ray.core import Clock, monotonic

Kind = Literal["stall", "resume", "kill"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One planned fault: `at` seconds into the run; a stall ends after `seconds`."""

    kind: Literal["stall", "kill"]
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
) -> list[FaultEvent]:
    """Carry out the faults at `start + at` (seconds of `clock`) and return what was done.

    `owns(pid)` is asked before anything is signalled; NotOurs is raised if it says no. Whatever was
    stopped is continued however this ends.
    """
    steps: list[tuple[float, Kind, int]] = []
    for fault in faults:
        steps.append((fault.at, fault.kind, fault.pid))
        if fault.kind == "stall":
            steps.append((fault.at + fault.seconds, "resume", fault.pid))
    done: list[FaultEvent] = []
    stopped: set[int] = set()
    numbers = {"stall": signal.SIGSTOP, "resume": signal.SIGCONT, "kill": signal.SIGKILL}
    try:
        for at, kind, pid in sorted(steps):
            await sleep(max(0.0, start + at - clock()))
            if not owns(pid):
                raise NotOurs(f"{kind}: process {pid} is not part of the tested system")
            send_signal(pid, numbers[kind])
            (stopped.add if kind == "stall" else stopped.discard)(pid)
            done.append(FaultEvent(clock() - start, kind, pid))
    finally:
        for pid in stopped:
            if owns(pid):
                send_signal(pid, signal.SIGCONT)
    return done
