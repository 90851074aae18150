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

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.clock.advance(seconds)

    def kill(self, pid: int, number: int) -> None:
        self.signals.append((self.clock() - 50.0, pid, number))

    async def inject(self, *faults: Fault) -> list[tuple[float, str, int]]:
        done = await inject(
            faults,
            start=50.0,
            owns=lambda pid: pid < 10,
            clock=self.clock,
            sleep=self.sleep,
            send_signal=self.kill,
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
