from __future__ import annotations

import asyncio
import signal

import pytest

from load_tests.faults import Fault, NotOurs, inject
from parm_ray.core import ManualClock


class World:
    """Ours are the processes 1 to 9; signals are noted, time passes by sleeping."""

    def __init__(self) -> None:
        self.clock = ManualClock(50.0)
        self.signals: list[tuple[float, int, int]] = []
        self.links: list[tuple[float, int, bool]] = []

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.clock.advance(seconds)

    def kill(self, pid: int, number: int) -> None:
        self.signals.append((self.clock() - 50.0, pid, number))

    def set_link(self, pid: int, up: bool) -> None:
        self.links.append((self.clock() - 50.0, pid, up))

    async def inject(self, *faults: Fault) -> list[tuple[float, str, int]]:
        done = await inject(
            faults,
            start=50.0,
            owns=lambda pid: pid < 10,
            clock=self.clock,
            sleep=self.sleep,
            send_signal=self.kill,
            set_link=self.set_link,
        )
        return [(event.t, event.kind, event.pid) for event in done]


async def test_faults_come_at_their_times_in_order() -> None:
    world = World()
    done = await world.inject(Fault("kill", 4.0, 2), Fault("stall", 1.0, 1, seconds=5.0))
    assert done == [(1.0, "stall", 1), (4.0, "kill", 2), (6.0, "resume", 1)]
    assert world.signals == [
        (1.0, 1, signal.SIGSTOP),
        (4.0, 2, signal.SIGKILL),
        (6.0, 1, signal.SIGCONT),
    ]


async def test_a_nodes_link_is_cut_for_a_while_and_comes_back_whatever_happens() -> None:
    world = World()
    done = await world.inject(Fault("cut", 1.0, 3, seconds=2.0))
    assert done == [(1.0, "cut", 3), (3.0, "cut_end", 3)]
    assert world.links == [(1.0, 3, False), (3.0, 3, True)]
    world = World()
    with pytest.raises(NotOurs):
        await world.inject(Fault("cut", 0.0, 3, seconds=9.0), Fault("kill", 1.0, 77))
    assert world.links == [(0.0, 3, False), (1.0, 3, True)]


async def test_what_died_while_it_was_stopped_or_cut_off_is_no_error_and_its_node_is_plugged_in() -> None:
    world = World()
    there = {1, 3}
    done = await inject(
        [Fault("stall", 1.0, 1, 2.0), Fault("cut", 1.0, 3, 2.0), Fault("cut", 3.0, 3, 1.0)],
        start=50.0,
        owns=lambda pid: pid in there or world.clock() < 52.0,
        clock=world.clock,
        sleep=world.sleep,
        send_signal=lambda pid, number: (world.kill(pid, number), there.discard(pid))[0],
        set_link=world.set_link,
    )
    assert [(event.t, event.kind) for event in done] == [
        (1.0, "stall"), (1.0, "cut"), (3.0, "resume"), (3.0, "cut_end"), (3.0, "cut"), (4.0, "cut_end")
    ]  # fmt: skip
    assert world.signals == [(1.0, 1, signal.SIGSTOP)]
    assert [up for _, _, up in world.links] == [False, True, False, True]


async def test_where_there_are_no_links_none_is_cut() -> None:
    with pytest.raises(NotOurs, match="no link"):
        await inject([Fault("cut", 0.0, 3, seconds=1.0)], start=0.0, owns=lambda pid: True)


async def test_a_foreign_process_is_never_signalled() -> None:
    world = World()
    with pytest.raises(NotOurs, match="77"):
        await world.inject(Fault("kill", 0.0, 77))
    assert world.signals == []


async def test_what_was_stopped_is_continued_when_something_fails() -> None:
    world = World()
    with pytest.raises(NotOurs):
        await world.inject(Fault("stall", 0.0, 1, seconds=9.0), Fault("kill", 1.0, 77))
    assert world.signals == [(0.0, 1, signal.SIGSTOP), (1.0, 1, signal.SIGCONT)]


async def test_what_was_stopped_is_continued_when_the_run_is_cancelled() -> None:
    world = World()
    stopped = asyncio.Event()

    async def for_ever(seconds: float) -> None:
        if world.signals:
            stopped.set()
            await asyncio.Event().wait()

    world.sleep = for_ever  # type: ignore[method-assign]
    task = asyncio.create_task(world.inject(Fault("stall", 0.0, 1, seconds=9.0)))
    await stopped.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [number for _, _, number in world.signals] == [signal.SIGSTOP, signal.SIGCONT]


async def test_no_faults() -> None:
    assert await World().inject() == []
