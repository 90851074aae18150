"""An emulated accelerator that several replicas share, in virtual time."""

from __future__ import annotations

import heapq
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from parm_ray.core import ManualClock
from parm_ray.serve.accelerator import CELLS, GONE_S, STEP_S, SharedAccelerator, path_of

# A call notices another one's begin and end a step late, and both of them.
NEAR = 3 * STEP_S

# The clock is the machine's, and no call runs in its first tenth of a second.
BOOT = 100.0


def ends(path: Path, calls: dict[str, tuple[float, float]], stopped: str | None = None) -> dict[str, float]:
    """When calls end that begin at the given time and need the given seconds; `stopped` goes on never."""
    clock = ManualClock(BOOT)
    users = {name: SharedAccelerator(path, clock) for name in calls}
    due: list[tuple[float, str]] = [(BOOT + begins, name) for name, (begins, _) in calls.items()]
    heapq.heapify(due)
    running: dict[str, Iterator[float]] = {}
    found = {}
    while due:
        now, name = heapq.heappop(due)
        clock.now = max(clock.now, now)
        if name not in running:
            running[name] = users[name].shares(calls[name][1])
        elif name == stopped:
            continue
        pause = next(running[name], None)
        if pause is None:
            found[name] = clock.now - BOOT
        else:
            heapq.heappush(due, (clock.now + pause, name))
    return found


def test_a_call_alone_takes_its_time(tmp_path: Path) -> None:
    assert ends(tmp_path / "a", {"x": (5.0, 0.5)})["x"] == pytest.approx(5.5)


def test_calls_that_run_together_have_a_part_of_it_each(tmp_path: Path) -> None:
    """x has 0.5 s alone, then half of the next 0.5 s while y gets its 0.25, then 0.25 s alone."""
    found = ends(tmp_path / "a", {"x": (0.0, 1.0), "y": (0.5, 0.25)})
    assert found == pytest.approx({"y": 1.0, "x": 1.25}, abs=NEAR)
    found = ends(tmp_path / "b", {"x": (0.0, 1.0), "y": (0.0, 1.0), "z": (0.0, 1.0)})
    assert found == pytest.approx({"x": 3.0, "y": 3.0, "z": 3.0}, abs=NEAR)


def test_a_call_that_was_stopped_takes_nothing_away(tmp_path: Path) -> None:
    found = ends(tmp_path / "a", {"x": (0.0, 1.0), "y": (0.0, 1.0)}, stopped="y")
    assert found == pytest.approx({"x": 1.0 + GONE_S / 2}, abs=NEAR)


def test_each_node_has_accelerators_of_its_own() -> None:
    assert len({path_of("node", "abc"), path_of("node", "abd"), path_of("other", "abc")}) == 3


def test_the_cell_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for _ in range(CELLS):
        SharedAccelerator(path, ManualClock())
    with pytest.raises(RuntimeError, match=f"{CELLS} replicas"):
        SharedAccelerator(path, ManualClock())
    ended = subprocess.Popen(["true"])
    ended.wait()
    cells = np.memmap(path, np.float64, "r+", shape=(CELLS, 2))
    cells[7] = (ended.pid, 1e12)
    SharedAccelerator(path, ManualClock())
    assert cells[7].tolist() == [os.getpid(), 0.0]
