"""Ending exactly the processes that this program started, on a machine where others run theirs.

A process is named by its pid and its creation time (psutil), so a pid that the kernel has given to
somebody else is never signalled.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable

import psutil


def tree(pid: int) -> list[psutil.Process]:
    """The process and all its living descendants, the root first; empty if it is gone."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def descends(pid: int, ancestor: int) -> bool:
    """Whether a living process is `ancestor` or below it. A few reads of /proc: cheap enough under load."""
    try:
        process = psutil.Process(pid)
        return pid == ancestor or any(parent.pid == ancestor for parent in process.parents())
    except psutil.NoSuchProcess:
        return False


def mentioning(text: str) -> list[psutil.Process]:
    """Processes with `text` in their command line (say, a directory that only this program uses)."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(text in word for word in process.cmdline()):
                found.append(process)
    return found


def end(processes: Iterable[psutil.Process], grace_s: float) -> None:
    """Ask (SIGTERM), wait up to `grace_s` seconds, then kill whatever is left (SIGKILL)."""
    remaining = list(dict.fromkeys(processes))
    for process in remaining:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, remaining = psutil.wait_procs(remaining, timeout=grace_s)
    for process in remaining:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(remaining, timeout=5)


def free_ports(n: int) -> list[int]:
    """Ask the kernel for n distinct TCP ports that nobody listens on right now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
