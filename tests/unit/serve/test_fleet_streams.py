"""Streams through a front end: retries until the first piece, and counts that come back to nothing."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from parm_ray.core import ModelFailed, monotonic
from parm_ray.routing.planes import RetryRule
from parm_ray.serve.fleet.engines import EngineFailedError
from tests.support.scripted_engines import BUSY, OK, Scripted, pair, requests, settled


async def test_a_stream_is_tried_elsewhere_until_its_first_piece() -> None:
    async def pieces(_: int) -> AsyncIterator[bytes]:
        if len(engines.calls) == 1:
            raise BUSY
        yield b"one"
        yield b"two"

    engines = Scripted(lambda j: asyncio.sleep(0, OK), pieces)
    front_end = pair()
    made, metrics = requests(front_end, engines)
    headers, found = await made.stream("default", None, "m", b"", {})
    assert headers["x-parm-attempts"] == "2"
    assert front_end.in_flight.sum() == 1
    assert [piece async for piece in found] == [b"one", b"two"]
    assert headers["x-parm-engine"] == front_end.engines[engines.calls[1]]
    assert settled(front_end)
    assert metrics.outcomes["ok"] == 1


async def test_what_a_streams_reader_takes_is_not_its_engines_latency() -> None:
    async def quick(_: int) -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"one"

    front_end = pair()
    made, _ = requests(front_end, Scripted(lambda j: asyncio.sleep(0, OK), quick))
    headers, found = await made.stream("default", None, "m", b"", {})
    engine = headers["x-parm-engine"]
    async for _ in found:
        await asyncio.sleep(0.1)
        # While it is at it, nothing waits for the engine.
        seen = front_end.report(monotonic()).engines[engine]
        assert (seen.waiting, seen.waited_s) == (0, 0)
    seen = front_end.report(monotonic()).engines[engine]
    assert seen.answers == 1
    assert seen.seconds < 0.25
    assert settled(front_end)


async def test_a_stream_that_breaks_is_a_failure_and_one_that_never_began_says_why() -> None:
    async def breaks(_: int) -> AsyncIterator[bytes]:
        yield b"one"
        raise BUSY

    async def empty(_: int) -> AsyncIterator[bytes]:
        for piece in ():
            yield piece

    front_end = pair(retry=RetryRule(most=0.0))
    made, metrics = requests(front_end, Scripted(lambda j: asyncio.sleep(0, OK), breaks))
    _, found = await made.stream("default", None, "m", b"", {})
    with pytest.raises(EngineFailedError):
        [piece async for piece in found]
    assert settled(front_end)
    assert metrics.outcomes["failed"] == 1
    made, _ = requests(front_end, Scripted(lambda j: asyncio.sleep(0, OK), empty))
    with pytest.raises(ModelFailed, match="before it began"):
        await made.stream("default", None, "m", b"", {})
    assert settled(front_end)


async def test_a_stream_that_nobody_reads_is_closed() -> None:
    async def endless(_: int) -> AsyncIterator[bytes]:
        while True:
            yield b"more"

    front_end = pair()
    made, metrics = requests(front_end, Scripted(lambda j: asyncio.sleep(0, OK), endless))
    _, found = await made.stream("default", None, "m", b"", {})
    assert front_end.in_flight.sum() == 1
    del found
    gc.collect()
    await asyncio.sleep(0.01)
    assert settled(front_end)
    assert metrics.outcomes == {"withdrawn": 1}
