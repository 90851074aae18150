"""Real namespaces and processes, but no Ray in them: `sleep` stands for a node's processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from load_tests import netlab
from load_tests.netlab import kernel, lifecycle, members, ray_nodes, state
from load_tests.netlab.lab import Lab
from load_tests.netlab.layout import Layout
from load_tests.netlab.settings import LabSettings

ROOT = Path(__file__).parents[3]
REASON = netlab.unavailable()

pytestmark = [pytest.mark.root, pytest.mark.skipif(REASON is not None, reason=str(REASON))]

TWO = LabSettings(model_nodes=2)

# An owner in a process of its own. It says which lab it has and what runs in it, then waits for its end.
OWNER = """
import signal, sys
from load_tests.netlab import lifecycle, ray_nodes
from load_tests.netlab.settings import LabSettings
ray_nodes.RayNodes.start = lambda self, say: None
# Ignored in what a shell or nohup started in the background, and inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
with lifecycle.start(LabSettings(model_nodes=2)) as lab:
    inside = lab.popen(["sleep", "600"])
    print(lab.name, inside.pid, flush=True)
    signal.pause()
"""


@pytest.fixture(autouse=True)
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_nodes.RayNodes, "start", lambda self, say: None)


@pytest.fixture
def lab() -> Iterator[Lab]:
    with lifecycle.start(TWO) as running:
        yield running


def left_of(name: str) -> list[str]:
    """What there still is of a lab, in words."""
    layout = Layout(name, TWO.model_nodes)
    found = [namespace for namespace in layout.namespaces if kernel.exists(namespace)]
    found += [str(path) for path in (lifecycle.temp_dir(name), state.path_of(name)) if path.exists()]
    return found


def gone(pid: int) -> bool:
    """Whether a process has ended; a child of ours that nobody waits for counts as ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def an_owner() -> tuple[subprocess.Popen[str], str, int]:
    process = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    name, pid = process.stdout.readline().split()
    return process, name, int(pid)


def test_a_lab_is_there_in_the_block_and_nothing_of_it_is_there_afterwards() -> None:
    with lifecycle.start(TWO) as lab:
        there = left_of(lab.name)
        inside = lab.popen(["sleep", "600"])
        assert len(there) == 6
        assert lab.owns(inside.pid)
        assert not lab.owns(os.getpid())
        assert (lab.node_of(inside.pid), lab.node_of(os.getpid())) == (0, None)
    assert inside.wait(timeout=5) == -signal.SIGTERM
    assert left_of(lab.name) == []


def test_an_exception_leaves_nothing_behind() -> None:
    with pytest.raises(ZeroDivisionError), lifecycle.start(TWO) as lab:
        raise ZeroDivisionError
    assert left_of(lab.name) == []


def test_a_failed_start_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    names = []

    def fail(self: ray_nodes.RayNodes, say: object) -> None:
        names.append(self.layout.name)
        assert len(left_of(self.layout.name)) == 6
        raise netlab.NetlabError("node 1 did not start")

    monkeypatch.setattr(ray_nodes.RayNodes, "start", fail)
    with pytest.raises(netlab.NetlabError, match="node 1"), lifecycle.start(TWO):
        pytest.fail("there is no lab")
    assert left_of(names[0]) == []


def test_processes_that_detach_or_refuse_to_end_end_all_the_same() -> None:
    deaf = (
        "import os, signal as s, time; os.fork() and os._exit(0); os.setsid(); s.signal(s.SIGTERM, s.SIG_IGN)"
    )
    with lifecycle.start(TWO) as lab:
        lab.run(
            [sys.executable, "-c", f"{deaf}; os.fork() and os._exit(0); os.execlp('sleep', 'sleep', '600')"]
        )
        # Its parents are about to exit, and may still be there; from the first look on somebody is.
        give_up = time.monotonic() + 30
        while len(found := members.members(members.identities([lab.layout.namespace(0)]))) > 1:
            assert time.monotonic() < give_up, found
            time.sleep(0.02)
        (detached,) = found
        stopped = lab.popen(["sleep", "600"], node=1)
        stopped.send_signal(signal.SIGSTOP)
    assert gone(detached.pid)
    assert stopped.wait(timeout=5) < 0
    assert left_of(lab.name) == []


def test_labs_coexist() -> None:
    with lifecycle.start(TWO) as first, lifecycle.start(TWO) as second:
        pids = [each.popen(["sleep", "600"]).pid for each in (first, second)]
        assert first.name != second.name
        assert [first.owns(pid) for pid in pids] == [True, False]
        assert [second.owns(pid) for pid in pids] == [False, True]
    assert left_of(first.name) + left_of(second.name) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_owner_ends_its_lab(number: signal.Signals) -> None:
    owner, name, inside = an_owner()
    assert len(left_of(name)) == 6
    owner.send_signal(number)
    assert owner.wait(timeout=60) != 0
    assert gone(inside)
    assert left_of(name) == []


def test_what_a_killed_owner_leaves_is_cleaned_and_a_living_owners_lab_is_not(lab: Lab) -> None:
    mine = lab.popen(["sleep", "600"])
    owner, name, inside = an_owner()
    assert name not in lifecycle.clean()
    assert not gone(inside)
    owner.kill()
    owner.wait()
    assert len(left_of(name)) == 6
    assert not gone(inside)
    command = [sys.executable, "-m", "load_tests.netlab"]
    listed = subprocess.run([*command, "status"], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    assert f"{name}: owner {owner.pid} is dead" in listed
    assert f"{lab.name}: owner {os.getpid()} lives" in listed
    cleaned = subprocess.run([*command, "clean"], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    assert name in cleaned
    assert lab.name not in cleaned
    assert gone(inside)
    assert left_of(name) == []
    assert mine.poll() is None
    assert len(left_of(lab.name)) == 6


def test_the_next_start_cleans_up_after_a_killed_owner() -> None:
    owner, name, inside = an_owner()
    owner.kill()
    owner.wait()
    with lifecycle.start(TWO):
        assert left_of(name) == []
        assert gone(inside)
