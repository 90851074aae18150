from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from load_tests import processes

CHILD = "import subprocess, sys; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True); p.wait()"
DEAF = "import signal as s, time; s.signal(s.SIGTERM, s.SIG_IGN); print('x', flush=True); time.sleep(600)"


def started(*command: str) -> tuple[subprocess.Popen[str], str]:
    """A process that has printed its first line."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.fixture
def family() -> Iterator[tuple[subprocess.Popen[str], int]]:
    parent, child = started(sys.executable, "-c", CHILD)
    yield parent, int(child)
    processes.end(processes.tree(parent.pid), grace_s=1)
    parent.wait()


def test_a_tree_is_the_root_and_everything_below(family: tuple[subprocess.Popen[str], int]) -> None:
    parent, child = family
    assert [p.pid for p in processes.tree(parent.pid)] == [parent.pid, child]
    assert processes.descends(child, parent.pid)
    assert processes.descends(child, os.getpid())
    assert processes.descends(parent.pid, parent.pid)
    assert not processes.descends(os.getpid(), parent.pid)


def test_end_takes_the_tree_and_nothing_else(family: tuple[subprocess.Popen[str], int]) -> None:
    parent, child = family
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        members = processes.tree(parent.pid)
        processes.end(members, grace_s=5)
        assert not any(p.is_running() for p in members)
        assert processes.tree(parent.pid) == []
        assert not processes.descends(child, parent.pid)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_what_ignores_the_request_is_killed() -> None:
    deaf, _ = started(sys.executable, "-c", DEAF)
    (process,) = processes.tree(deaf.pid)
    processes.end([process], grace_s=0.05)
    assert not process.is_running()
    deaf.wait()


def test_processes_are_found_by_a_word_in_their_command_line() -> None:
    marked, _ = started(
        sys.executable, "-c", "import time; print(1, flush=True); time.sleep(600)", "mark-4711"
    )
    assert [p.pid for p in processes.mentioning("mark-4711")] == [marked.pid]
    marked.kill()
    marked.wait()


def test_free_ports_are_distinct() -> None:
    assert len(set(processes.free_ports(8))) == 8
