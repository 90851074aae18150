from __future__ import annotations

import asyncio
import gc

import pytest

from load_tests.client import Reply, SendFailed, lagged, open_loop, send_lateness_p99, to_records
from load_tests.records import ClientRecord
from parm_ray.core import ManualClock, Outcome


class Time:
    """A clock whose sleep moves it, so that no test waits."""

    def __init__(self) -> None:
        self.clock = ManualClock(100.0)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.clock.advance(seconds)


OK = Reply(200, {}, b"")


async def test_a_query_is_sent_at_its_time_although_all_before_it_are_unanswered() -> None:
    time, last_sent = Time(), asyncio.Event()

    async def send(i: int) -> Reply:
        if i == 2:
            last_sent.set()
        await last_sent.wait()
        return OK

    shots = await open_loop([0.0, 1.0, 5.0], send, start=100.0, clock=time.clock, sleep=time.sleep)
    assert [shot.sent for shot in shots] == [0.0, 1.0, 5.0]
    assert [shot.done for shot in shots] == [5.0, 5.0, 5.0]


async def test_latency_counts_from_the_planned_time_when_the_generator_is_late() -> None:
    time = Time()

    async def send(i: int) -> Reply:
        return OK

    # The run should have started two seconds ago.
    shots = await open_loop([0.0, 0.5, 9.0], send, start=98.0, clock=time.clock, sleep=time.sleep)
    records = [ClientRecord(i, s.planned, s.sent, s.done, 200, Outcome.ORIGINAL) for i, s in enumerate(shots)]
    assert [r.send_lateness_s for r in records] == [2.0, 1.5, 0.0]
    assert [r.latency_s for r in records] == [2.0, 1.5, 0.0]
    assert lagged(records)
    assert send_lateness_p99(records) == 2.0
    assert not lagged(records[2:])


async def test_failures_are_results_and_bugs_end_the_run() -> None:
    time = Time()
    seen: list[Reply | SendFailed] = []

    async def send(i: int) -> Reply:
        if i == 1:
            raise SendFailed("no route")
        return OK

    shots = await open_loop(
        [0.0, 0.0], send, start=100.0, clock=time.clock, sleep=time.sleep, on_done=seen.append
    )
    assert str(shots[1].result) == "no route"
    assert len(seen) == 2

    async def broken(i: int) -> Reply:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        await open_loop([0.0], broken, start=100.0, clock=time.clock, sleep=time.sleep)
    assert gc.isenabled()


def test_no_records_do_not_lag() -> None:
    assert not lagged([])


async def test_records_name_the_reason_of_every_failure() -> None:
    time = Time()
    replies = [
        SendFailed("timeout after 5 s"),
        Reply(503, {}, b'{"error": "queue full"}'),
        Reply(200, {}, b"not json"),
        Reply(200, {"x-parm-outcome": "nonsense"}, b'{"outputs": []}'),
    ]

    async def send(i: int) -> Reply:
        result = replies[i]
        if isinstance(result, SendFailed):
            raise result
        return result

    shots = await open_loop([0.0] * 4, send, start=100.0, clock=time.clock, sleep=time.sleep)
    records = to_records(shots, "logits", [1, 2, 3, 4])
    assert {r.outcome for r in records} == {Outcome.FAILED}
    assert [r.status for r in records] == [0, 503, 200, 200]
    assert records[0].error == "timeout after 5 s"
    assert records[1].error == "HTTP 503: queue full"
    assert records[2].error.startswith("malformed")
    assert [r.label for r in records] == [1, 2, 3, 4]
    assert [r.correct for r in records] == [None] * 4
