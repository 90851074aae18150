"""A load generator that shares its cores with what it measures must not wait for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# Any real-time priority is above everything that has none.
PRIORITY = 1


@contextmanager
def first_served() -> Iterator[None]:
    """Give this thread a core whenever it wants one, where the system lets us; else change nothing.

    It stands for a client's machine, which has cores of its own. Linux, with the right to (root).
    Processes and threads started meanwhile are scheduled as usual.
    """
    try:
        before = os.sched_getscheduler(0), os.sched_getparam(0)
        policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(PRIORITY))
    except (AttributeError, OSError):
        yield
        return
    try:
        yield
    finally:
        # Who may raise its priority need not have the right to give up RESET_ON_FORK again.
        with suppress(OSError):
            os.sched_setscheduler(0, *before)
