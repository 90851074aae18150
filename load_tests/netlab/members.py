"""Processes of a lab: those in its network namespaces, whoever started them.

A process is born into its parent's namespace and ours never leave it, so this finds everything that Ray
started, daemons included, and nothing that anybody else did.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable

import psutil

from load_tests.netlab.kernel import NAMESPACES, NetlabError
from load_tests.netlab.layout import Layout

LOOKS = 50
"""How often to look at most: on a machine that starts and ends processes all the time somebody always has."""


def identities(namespaces: Iterable[str]) -> set[tuple[int, int]]:
    """What the kernel knows those of the namespaces by that exist: (device, inode) each."""
    found = set()
    for namespace in namespaces:
        try:
            status = os.stat(NAMESPACES / namespace)
        except FileNotFoundError:
            continue
        found.add((status.st_dev, status.st_ino))
    return found


def is_in(pid: int, wanted: set[tuple[int, int]]) -> bool:
    """Whether a living process is in one of the namespaces."""
    return _namespace_of(pid) in wanted


def _namespace_of(pid: int) -> tuple[int, int] | None:
    """What the kernel knows a process's network namespace by; None if the process has ended."""
    try:
        status = os.stat(f"/proc/{pid}/ns/net")
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


def members(wanted: set[tuple[int, int]]) -> list[psutil.Process]:
    """All living processes in the namespaces.

    A process that forks and exits between being listed and being looked at hides its child, which is not
    in the list. So the list is made again until none of those in it has ended since the last one was made.
    """
    before: set[int] = set()
    for _ in range(LOOKS):
        found, ended = _look(wanted)
        if not ended - before:
            break
        before = ended
    return found


def _look(wanted: set[tuple[int, int]]) -> tuple[list[psutil.Process], set[int]]:
    """The living processes in the namespaces, and the ids of those listed that have ended by now."""
    found, ended = [], set()
    for pid in psutil.pids():
        namespace = _namespace_of(pid)
        if namespace is None:
            ended.add(pid)
        elif namespace in wanted:
            try:
                process = psutil.Process(pid)
            except psutil.NoSuchProcess:
                ended.add(pid)
                continue
            # Asked again: from here on psutil knows the process by its birth, not only by its pid.
            if is_in(pid, wanted):
                found.append(process)
            else:
                ended.add(pid)
    return found, ended


def owns(layout: Layout, pid: int) -> bool:
    """Whether a process belongs to the lab. Asked before every signal."""
    return is_in(pid, identities(layout.namespaces))


def end(namespaces: Iterable[str], *, grace_s: float, give_up_s: float = 20.0) -> None:
    """End every process in the namespaces: SIGTERM, `grace_s` seconds, SIGKILL until nobody is left.

    With a grace of 0 nobody is asked first. Never touches the caller, should it run inside. Raises
    NetlabError if one survives `give_up_s` seconds of this.
    """
    wanted = identities(namespaces)
    if grace_s > 0:
        _tell(wanted, psutil.Process.terminate, grace_s)
    if remaining := _tell(wanted, psutil.Process.kill, give_up_s):
        raise NetlabError(f"processes {sorted(process.pid for process in remaining)} do not end")


def _tell(
    wanted: set[tuple[int, int]], tell: Callable[[psutil.Process], None], patience_s: float
) -> list[psutil.Process]:
    """Tell everybody in the namespaces once, late-comers too, until nobody is left; return who is."""
    told: set[psutil.Process] = set()
    give_up = time.monotonic() + patience_s
    # Watched, not waited for: waiting would take the exit status of the caller's children from it.
    while remaining := [process for process in members(wanted) if process.pid != os.getpid()]:
        if time.monotonic() > give_up:
            break
        for process in set(remaining) - told:
            with contextlib.suppress(psutil.NoSuchProcess):
                tell(process)
        told.update(remaining)
        time.sleep(0.03)
    return remaining
