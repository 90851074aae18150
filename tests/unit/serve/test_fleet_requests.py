"""One request through a front end: retries, hedges, and counts that come back to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from parm_ray.core import ModelFailed, Overloaded, monotonic
from parm_ray.routing.planes import AdmissionRule, RetryRule
from parm_ray.serve.fleet.engines import Answer, EngineFailedError
from parm_ray.serve.fleet.requests import Requests
from tests.support.scripted_engines import BUSY, OK, Scripted, ask, pair, requests, settled, some


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
    # It has not failed, but it was slow, at least as slow as that.
    seen = front_end.report(monotonic()).engines[front_end.engines[engines.calls[0]]]
    assert (seen.failures, seen.waiting, seen.given_up) == (0, 0, 1)
    assert seen.given_up_s >= 0.01


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


async def gone(of: Requests, while_it: Callable[[], bool]) -> None:
    """A client asks, and goes once that is so."""
    task = asyncio.ensure_future(ask(of))
    for _ in range(500):
        await asyncio.sleep(0.01)
        if while_it():
            break
    else:
        raise AssertionError("it never was so")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("hedge_s", [None, 0.001])
async def test_a_client_that_goes_leaves_nothing_behind(hedge_s: float | None) -> None:
    async def hangs(_: int) -> Answer:
        await asyncio.sleep(60)
        return OK

    front_end = pair()
    made, metrics = requests(front_end, Scripted(hangs), hedge_s)
    await gone(made, lambda: front_end.in_flight.sum() == (1 if hedge_s is None else 2))
    assert settled(front_end)
    assert set(metrics.outcomes) == {"withdrawn"}
    # Of which no engine is to blame.
    assert not any(seen.given_up for seen in front_end.report(monotonic()).engines.values())


async def test_a_client_that_goes_during_a_backoff_gives_it_back() -> None:
    async def fails(_: int) -> Answer:
        raise BUSY

    front_end = pair(retry=RetryRule(most=1.0, backoff_s=30.0, max_backoff_s=30.0))
    made, _ = requests(front_end, Scripted(fails))
    await gone(made, lambda: front_end.budget.in_backoff == 1)
    assert settled(front_end)
    assert front_end.budget.granted == 0


async def test_hedges_and_retries_together_are_no_more_than_the_attempts_and_go_to_all_in_turn() -> None:
    async def fails_late(_: int) -> Answer:
        await asyncio.sleep(0.02)
        raise BUSY

    engines = Scripted(fails_late)
    front_end = some("abcd", retry=RetryRule(most=1.0, attempts=4, backoff_s=0.001))
    made, metrics = requests(front_end, engines, hedge_s=0.001)
    answer = await ask(made)
    assert sorted(engines.calls) == [0, 1, 2, 3]
    assert answer.headers["x-parm-attempts"] == "4"
    assert metrics.outcomes == {"failed": 4}
    assert front_end.budget.granted == 3
    assert settled(front_end)


async def test_the_last_attempt_is_not_hedged() -> None:
    async def late(_: int) -> Answer:
        await asyncio.sleep(0.02)
        return OK

    engines = Scripted(late)
    front_end = pair(retry=RetryRule(most=1.0, attempts=1))
    made, _ = requests(front_end, engines, hedge_s=0.001)
    assert (await ask(made)).headers["x-parm-attempts"] == "1"
    assert front_end.budget.granted == 0


async def test_a_hedge_that_has_nowhere_to_go_costs_nothing() -> None:
    async def late(_: int) -> Answer:
        await asyncio.sleep(0.02)
        return OK

    front_end = some("a")
    made, _ = requests(front_end, Scripted(late), hedge_s=0.001)
    await ask(made)
    assert (front_end.budget.granted, front_end.budget.refused) == (0, 0)


async def test_a_retry_that_finds_every_engine_full_gives_its_token_back() -> None:
    async def fills_up(_: int) -> Answer:
        front_end.begin(0, 0.0)
        front_end.begin(1, 0.0)
        raise BUSY

    front_end = pair(admission=AdmissionRule(burst=0.001, min_in_flight=1))
    made, _ = requests(front_end, Scripted(fills_up))
    assert (await ask(made)).headers["x-parm-attempts"] == "1"
    assert (front_end.budget.granted, front_end.budget.in_backoff) == (0, 0)


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
