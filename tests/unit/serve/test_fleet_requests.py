"""One request through a front end: retries, hedges, streams, and counts that come back to nothing."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from parm_ray.core import ModelFailed, Overloaded, monotonic
from parm_ray.routing.fleet import MM1, Demand, Engine, Fleet
from parm_ray.routing.planes import AdmissionRule, FrontEnd, RetryRule
from parm_ray.serve.fleet.engines import Answer, EngineFailedError
from parm_ray.serve.fleet.requests import Requests
from tests.support.fleets import front_end_of

OK = Answer(200, {"a": "b"}, b"fine")
BUSY = EngineFailedError("busy", Answer(503, {"Retry-After": "1"}, b"busy"))
Script = Callable[[int], Awaitable[Answer]]


class Scripted:
    """Engines that do what they are told; `calls` is who was asked, in order."""

    def __init__(self, do: Script, pieces: Callable[[int], AsyncIterator[bytes]] | None = None) -> None:
        self._do, self._pieces = do, pieces
        self.calls: list[int] = []

    async def forward(self, j: int, *_: Any) -> Answer:
        self.calls.append(j)
        return await self._do(j)

    def stream(self, j: int, *_: Any) -> AsyncIterator[bytes]:
        self.calls.append(j)
        assert self._pieces is not None
        return self._pieces(j)


class Counted:
    """Metrics that are counted."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()

    def called(self, engine: str, outcome: str) -> None:
        self.outcomes[outcome] += 1

    def shed(self, demand: str) -> None:
        self.outcomes["shed"] += 1


def pair(**rule: Any) -> FrontEnd:
    fleet = Fleet((Demand("x", 10.0),), (Engine("a", MM1(50.0)), Engine("b", MM1(50.0))), np.zeros((1, 2)))
    rules = {"retry": RetryRule(most=1.0, backoff_s=0.001), **rule}
    return front_end_of(fleet, "x", random.Random(3), **rules)


def requests(
    front_end: FrontEnd, engines: Scripted, hedge_s: float | None = None
) -> tuple[Requests, Counted]:
    for _ in range(20):
        front_end.budget.request(monotonic())
    metrics = Counted()
    return Requests(front_end, engines, monotonic, metrics, hedge_s, random.Random(1)), metrics  # type: ignore[arg-type]


def ask(of: Requests) -> Awaitable[Answer]:
    return of.answer("default", None, "m", b"", {})


def settled(front_end: FrontEnd) -> bool:
    return not front_end.in_flight.any() and front_end.budget.in_backoff == 0


async def test_an_answer_says_who_gave_it_after_how_many_calls() -> None:
    async def fine(_: int) -> Answer:
        return OK

    front_end = pair()
    made, metrics = requests(front_end, Scripted(fine))
    answer = await ask(made)
    assert (answer.status, answer.body, answer.headers["a"]) == (200, b"fine", "b")
    assert answer.headers["x-parm-engine"] in ("a", "b")
    assert answer.headers["x-parm-attempts"] == "1"
    assert settled(front_end)
    assert metrics.outcomes == {"ok": 1}


async def test_what_failed_is_tried_elsewhere() -> None:
    async def first_fails(_: int) -> Answer:
        if len(engines.calls) == 1:
            raise BUSY
        return OK

    engines = Scripted(first_fails)
    front_end = pair()
    made, metrics = requests(front_end, engines)
    answer = await ask(made)
    assert answer.headers["x-parm-attempts"] == "2"
    assert engines.calls[0] != engines.calls[1]
    assert settled(front_end)
    assert metrics.outcomes == {"failed": 1, "ok": 1}


@pytest.mark.parametrize(("error", "status"), [(BUSY, 503), (EngineFailedError("gone"), None)])
async def test_when_all_attempts_fail_the_last_word_counts(
    error: EngineFailedError, status: int | None
) -> None:
    async def fails(_: int) -> Answer:
        raise error

    engines = Scripted(fails)
    front_end = pair()
    made, _ = requests(front_end, engines)
    if status is None:
        with pytest.raises(ModelFailed, match="gone"):
            await ask(made)
    else:
        answer = await ask(made)
        assert (answer.status, answer.headers["Retry-After"]) == (status, "1")
    assert len(engines.calls) == front_end.rule.retry.attempts
    assert settled(front_end)


async def test_without_budget_nothing_is_sent_again() -> None:
    async def fails(_: int) -> Answer:
        raise BUSY

    engines = Scripted(fails)
    front_end = pair(retry=RetryRule(most=0.0))
    made, _ = requests(front_end, engines, hedge_s=0.0)
    assert (await ask(made)).status == 503
    assert len(engines.calls) == 1


async def test_a_slow_call_is_hedged_and_the_loser_withdrawn() -> None:
    async def first_hangs(_: int) -> Answer:
        if len(engines.calls) == 1:
            await asyncio.sleep(60)
        return OK

    engines = Scripted(first_hangs)
    front_end = pair()
    made, metrics = requests(front_end, engines, hedge_s=0.01)
    answer = await ask(made)
    assert answer.headers["x-parm-attempts"] == "2"
    assert answer.headers["x-parm-engine"] == front_end.engines[engines.calls[1]]
    assert engines.calls[0] != engines.calls[1]
    assert settled(front_end)
    assert metrics.outcomes == {"ok": 1, "withdrawn": 1}
    # A withdrawn call says nothing of its engine.
    assert front_end.report(monotonic()).engines[front_end.engines[engines.calls[0]]].failures == 0


async def test_a_hedge_that_fails_does_not_end_the_first_call() -> None:
    async def second_fails(_: int) -> Answer:
        if len(engines.calls) == 2:
            raise BUSY
        await asyncio.sleep(0.05)
        return OK

    engines = Scripted(second_fails)
    front_end = pair()
    made, _ = requests(front_end, engines, hedge_s=0.001)
    answer = await ask(made)
    assert answer.headers["x-parm-engine"] == front_end.engines[engines.calls[0]]
    assert settled(front_end)


async def test_a_client_that_goes_leaves_nothing_behind() -> None:
    async def hangs(_: int) -> Answer:
        await asyncio.sleep(60)
        return OK

    front_end = pair()
    for hedge_s in (None, 0.001):
        made, metrics = requests(front_end, Scripted(hangs), hedge_s)
        task = asyncio.ensure_future(ask(made))
        await asyncio.sleep(0.02)
        assert front_end.in_flight.any()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert settled(front_end)
        assert set(metrics.outcomes) == {"withdrawn"}


async def test_a_client_that_goes_during_a_backoff_gives_it_back() -> None:
    async def fails(_: int) -> Answer:
        raise BUSY

    front_end = pair(retry=RetryRule(most=1.0, backoff_s=30.0, max_backoff_s=30.0))
    made, _ = requests(front_end, Scripted(fails))
    task = asyncio.ensure_future(ask(made))
    await asyncio.sleep(0.02)
    assert front_end.budget.in_backoff == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert settled(front_end)


async def test_a_shed_request_reaches_no_engine() -> None:
    async def fine(_: int) -> Answer:
        return OK

    engines = Scripted(fine)
    front_end = pair(admission=AdmissionRule(burst=0.001, min_in_flight=1))
    for j in (0, 1):
        front_end.begin(j, 0.0)
    made, metrics = requests(front_end, engines)
    with pytest.raises(Overloaded):
        await ask(made)
    assert engines.calls == []
    assert metrics.outcomes == {"shed": 1}


async def test_a_stream_is_tried_elsewhere_until_its_first_piece() -> None:
    async def pieces(_: int) -> AsyncIterator[bytes]:
        if len(engines.calls) == 1:
            raise BUSY
        yield b"one"
        yield b"two"

    engines = Scripted(lambda j: asyncio.sleep(0, OK), pieces)
    front_end = pair()
    made, metrics = requests(front_end, engines)
    engine, found = await made.stream("default", None, "m", b"", {})
    assert front_end.in_flight.sum() == 1
    assert [piece async for piece in found] == [b"one", b"two"]
    assert engine == front_end.engines[engines.calls[1]]
    assert settled(front_end)
    assert metrics.outcomes["ok"] == 1


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
