"""A process that forked and exited between being listed and being looked at hid its child from the lab.

Seen as a lab whose namespace seemed empty while a daemon was on its way up; ending the lab could have
left it behind.
"""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from load_tests.netlab import members

HERE = {(os.stat("/proc/self/ns/net").st_dev, os.stat("/proc/self/ns/net").st_ino)}


def test_the_child_of_a_process_that_ends_while_looked_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[subprocess.Popen[bytes]] = []
    listed = psutil.pids

    def listing() -> list[int]:
        """The first list has a process that has ended by the time it is looked at, its child being there."""
        pids = listed()
        if not children:
            ended = subprocess.Popen([sys.executable, "-c", "pass"])
            ended.wait()
            pids.append(ended.pid)
            children.append(subprocess.Popen(["sleep", "60"]))
        return pids

    monkeypatch.setattr(psutil, "pids", listing)
    try:
        found = {process.pid for process in members.members(HERE)}
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert {child.pid for child in children} <= found
    assert os.getpid() in found
