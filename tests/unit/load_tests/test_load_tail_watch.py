from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from load_tests.client import (
    GeneratorLagged,
    Reply,
    SendFailed,
    Shot,
    check_generator,
    open_loop,
)
from load_tests.records import ClientRecord
from load_tests.tail_watch import TailWatch
from parm_ray.core import ManualClock, Outcome
from parm_ray.stats import percentile

OK = Reply(200, {}, b"")


def shot(planned: float, done: float, result: Reply | SendFailed = OK) -> Shot[Reply]:
    return Shot(planned, planned, done, result)


@pytest.mark.parametrize(
    ("n", "q", "allowed"),
    [(500, 0.99, 5), (100, 0.99, 1), (99, 0.99, 0), (1, 0.99, 0), (1000, 0.999, 1), (100, 0.07, 93)],
)
def test_how_many_may_be_late(n: int, q: float, allowed: int) -> None:
    assert TailWatch(range(n), 1.0, q).allowed == allowed


@given(
    st.lists(st.one_of(st.floats(0, 2), st.just(float("inf"))), min_size=1, max_size=150),
    st.sampled_from([0.5, 0.9, 0.99, 1.0]),
)
def test_it_gives_up_exactly_when_the_percentile_exceeds_the_limit(latencies: list[float], q: float) -> None:
    watch = TailWatch([0.0] * len(latencies), 1.0, q)
    for i, latency in enumerate(latencies):
        failed = latency == float("inf")
        watch.ended(i, shot(0.0, 0.5 if failed else latency, SendFailed("no") if failed else OK))
    finite = [latency for latency in latencies if latency < float("inf")]
    lost = percentile(finite, q, len(latencies) - len(finite)) > 1.0
    assert watch.hopeless(0.9) == lost
    # Long after the limit nothing is counted twice, nor counted late that was in time.
    assert watch.hopeless(99.0) == lost


def test_queries_without_an_answer_become_late_by_themselves() -> None:
    watch = TailWatch([0.0, 1.0, 2.0], 0.5, q=0.5)
    watch.ended(0, shot(0.0, 0.1))
    assert not watch.hopeless(1.5)
    assert watch.hopeless(2.6)
    assert watch.late == 2
    # An answer after that changes nothing.
    watch.ended(1, shot(1.0, 2.7))
    assert watch.late == 2


def test_it_counts_from_the_planned_time_like_the_records() -> None:
    watch = TailWatch([0.0], 1.0)
    watch.ended(0, Shot(0.0, 0.8, 1.1, OK))
    assert watch.hopeless(1.1)


@pytest.mark.parametrize("result", [SendFailed("refused"), Reply(503, {}, b"")])
def test_a_failure_is_late_however_fast_it_was(result: Reply | SendFailed) -> None:
    watch = TailWatch([0.0], 1.0)
    watch.ended(0, shot(0.0, 0.001, result))
    assert watch.hopeless(0.002)


@pytest.mark.parametrize(
    ("limit", "q", "field"), [(0, 0.9, "limit_s"), (float("nan"), 0.9, "limit_s"), (1, 0, "q:")]
)
def test_refuses_bad_arguments(limit: float, q: float, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        TailWatch([0.0], limit, q)


async def served(
    send: Callable[[int, ManualClock], Awaitable[Reply]], n: int, limit_s: float
) -> list[Shot[Reply]]:
    """n queries, one every second of a clock that only the client's sleep moves."""
    clock = ManualClock(50.0)

    async def sleep(seconds: float) -> None:
        # What was sent before runs to its end first.
        for _ in range(5):
            await asyncio.sleep(0)
        clock.advance(seconds)

    planned = [float(i) for i in range(n)]
    watch = TailWatch(planned, limit_s)
    return await open_loop(
        planned, lambda i: send(i, clock), start=50.0, clock=clock, sleep=sleep, watch=watch
    )


async def test_a_run_that_is_lost_stops_sending() -> None:
    async def send(i: int, clock: ManualClock) -> Reply:
        return OK if i < 3 else Reply(503, {}, b"")

    shots = await served(send, 10, limit_s=0.5)
    # Query 3 fails; p99 of ten is lost with the first failure.
    assert len(shots) == 4


async def test_a_run_whose_answers_stay_out_stops_sending_and_still_waits_for_them() -> None:
    released, sent = asyncio.Event(), 0

    async def send(i: int, clock: ManualClock) -> Reply:
        nonlocal sent
        sent += 1
        await released.wait()
        return OK

    running = asyncio.create_task(served(send, 100, limit_s=5.5))
    for _ in range(2000):
        await asyncio.sleep(0)
    # One of a hundred may be late. Query 1 is the second, from 6.5 s on: query 7 is not sent.
    assert sent == 7
    assert not running.done()
    released.set()
    assert len(await running) == 7


async def test_a_run_that_holds_is_sent_whole() -> None:
    async def send(i: int, clock: ManualClock) -> Reply:
        return OK

    assert len(await served(send, 120, limit_s=0.5)) == 120


def late_by(*seconds: float) -> list[ClientRecord]:
    return [ClientRecord(i, 1.0 * i, i + s, i + 1.0, 200, Outcome.ORIGINAL) for i, s in enumerate(seconds)]


def test_a_generator_that_lagged_is_refused_with_the_figures() -> None:
    records = late_by(*np.full(95, 0.001), *np.full(5, 0.02))
    with pytest.raises(GeneratorLagged) as refused:
        check_generator(records, limit_s=0.005)
    words = str(refused.value)
    assert "p99 20.0 ms, limit 5 ms (5 of 100 queries over it, the worst 20.0 ms)" in words
    assert "lower the rate" in words


def test_a_generator_that_kept_to_its_plan_is_not() -> None:
    check_generator(late_by(*np.full(99, 0.001), 0.02), limit_s=0.005)
    check_generator([], limit_s=0.005)
