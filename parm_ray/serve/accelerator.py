"""One emulated accelerator for several replicas of a node: what they compute together takes longer."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from parm_ray.core import Clock, monotonic

CELLS = 64
"""Replicas that can share one."""

STEP_S = 0.003
"""How often a call looks who computes beside it, seconds."""

GONE_S = 0.1
"""A call that has not looked for so long, seconds, has been stopped or killed and takes nothing away."""

_PID, _BEAT = 0, 1


def path_of(name: str, node: str) -> Path:
    """Return where the replicas of one node that share the accelerator of that name meet."""
    return Path(tempfile.gettempdir()) / f"parm_ray_accelerators_{os.getuid()}" / f"{name}-{node}"


class SharedAccelerator:
    """Processor sharing between processes: of n calls that run together each has 1/n of the accelerator.

    As accelerators are that several processes use in turns. path: a file that all of them map, made if it
    is not there; every user has a cell in it, in which its running call writes the time again and again.
    clock: the same for all processes of a machine. Raises OSError for a file that cannot be made, and
    RuntimeError if there are CELLS users already.
    """

    def __init__(self, path: Path, clock: Clock = monotonic) -> None:
        self._clock = clock
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("ab") as file:
            # Two that start together must not take the same cell.
            fcntl.flock(file, fcntl.LOCK_EX)
            # Zeros where there was nothing: an accelerator without users.
            file.truncate(CELLS * 2 * np.dtype(np.float64).itemsize)
            self._cells = np.memmap(path, np.float64, "r+", shape=(CELLS, 2))
            self._mine = self._claim()

    def _claim(self) -> int:
        """Take a cell that has no owner, or a dead one."""
        for cell in range(CELLS):
            if not _lives(int(self._cells[cell, _PID])):
                self._cells[cell] = (os.getpid(), 0.0)
                return cell
        raise RuntimeError(f"{self._cells.filename}: {CELLS} replicas share this accelerator already")

    def shares(self, seconds: float) -> Iterator[float]:
        """Yield how long to wait, time and again, until the call has had `seconds` of the accelerator."""
        left, now = seconds, self._clock()
        try:
            # A remainder that no clock resolves is none.
            while left > 1e-9:
                self._cells[self._mine, _BEAT] = now
                running = self._running(now)
                yield min(STEP_S, left * running)
                then = self._clock()
                left, now = left - (then - now) / running, then
        finally:
            self._cells[self._mine, _BEAT] = 0.0

    def _running(self, now: float) -> int:
        """How many calls compute now, this one counted in."""
        beats = self._cells[:, _BEAT]
        return max(1, int(np.count_nonzero(beats > now - GONE_S)))


def _lives(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
