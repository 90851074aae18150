"""How much idle room low-priority calls leave."""

from __future__ import annotations

from typing import Any

import pytest

from parm_ray.routing import CallQueue, make_queue
from parm_ray.routing.reserve import Reserve

SIX = {f"r{i}": f"n{i}" for i in range(6)}


def six(discipline: str, reserve: float | None) -> CallQueue[Any]:
    queue: CallQueue[Any] = make_queue(discipline, reserve=reserve)
    queue.set_replicas(SIX)
    return queue


def start_low(queue: CallQueue[Any], calls: int = 6) -> int:
    """How many of so many low-priority calls start."""
    for call in range(calls):
        queue.push(("low", call), call, low=True)
    started = 0
    while queue.start(0.0) is not None:
        started += 1
    return started


def serve(queue: CallQueue[Any], busy: int, calls: int = 1000) -> None:
    """Ordinary calls come one at a time and find `busy` of the replicas busy with ordinary ones."""
    running = []
    for call in range(calls):
        queue.push(call, call)
        running.append(queue.start(0.0))
        if len(running) > busy:
            done = running.pop(0)
            assert done is not None
            queue.finish(done.call, done.replica)
    for done in running:
        assert done is not None
        queue.finish(done.call, done.replica)


@pytest.mark.parametrize("discipline", ["single", "round_robin"])
@pytest.mark.parametrize(("busy", "started"), [(0, 6), (1, 5), (2, 4), (3, 3), (5, 1)])
def test_as_many_slots_stay_idle_as_ordinary_calls_keep_busy(
    discipline: str, busy: int, started: int
) -> None:
    queue = six(discipline, None)
    serve(queue, busy)
    assert start_low(queue) == started


def test_low_priority_calls_do_not_count_as_load() -> None:
    queue = six("single", None)
    serve(queue, 0)
    assert start_low(queue, 4) == 4
    # Each ordinary call finds four replicas busy with low-priority ones, and none with its like.
    serve(queue, 0)
    assert start_low(queue, 2) == 2


@pytest.mark.parametrize(("reserve", "started"), [(0.0, 6), (0.5, 3), (0.8, 1)])
def test_a_fixed_share_stays_whatever_the_load(reserve: float, started: int) -> None:
    queue = six("single", reserve)
    serve(queue, 5)
    assert start_low(queue) == started


def test_the_mean_follows_a_change_of_load_within_some_hundred_calls() -> None:
    reserve = Reserve(None)
    for _ in range(300):
        reserve.arrived(1.0)
    assert reserve.share > 0.95
    for _ in range(300):
        reserve.arrived(0.0)
    assert reserve.share < 0.06
