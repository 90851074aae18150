from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from ray.exceptions import ActorDiedError, RayTaskError
from ray.serve.exceptions import RequestCancelledError

from load_tests.client import SendFailed, open_loop
from load_tests.handle_target import HandleTarget, to_records
from parm_ray.core import DeadlineExceeded, InvalidInput, ManualClock, Outcome, Overloaded


@dataclass
class Prediction:
    """What a handle gives: the class is the query's first number."""

    output: np.ndarray
    outcome: Outcome = Outcome.ORIGINAL
    group: int | None = 4
    slot: int | None = 1
    lateness_ms: float = 0.0


class Response:
    """Awaitable like Serve's DeploymentResponse: not a coroutine, and with a `cancel` of its own."""

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome
        self.cancelled = False

    def __await__(self) -> Generator[Any, None, Any]:
        if self.outcome is None:
            yield from asyncio.get_running_loop().create_future()
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome
        yield

    def cancel(self) -> None:
        self.cancelled = True


class Handle:
    """`handle.METHOD.remote(query, **arguments)`."""

    def __init__(self, answer: Callable[[np.ndarray], Any]) -> None:
        self.answer = answer
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.responses: list[Response] = []

    def __getattr__(self, method: str) -> Handle:
        self.method = method
        return self

    def remote(self, query: np.ndarray, **arguments: Any) -> Response:
        self.calls.append((self.method, arguments))
        self.responses.append(Response(self.answer(query)))
        return self.responses[-1]


def classify(query: np.ndarray) -> Prediction:
    return Prediction(np.eye(10)[int(query[0])])


def target(answer: Callable[[np.ndarray], Any], timeout_s: float = 30.0, **arguments: Any) -> HandleTarget:
    return HandleTarget(Handle(answer), lambda i: np.array([i, 0]), timeout_s, **arguments)


async def reason(failure: BaseException | None, timeout_s: float = 30.0) -> str:
    with pytest.raises(SendFailed) as failed:
        await target(lambda query: failure, timeout_s)(0)
    return str(failed.value)


async def test_records_have_what_the_prediction_says() -> None:
    clock = ManualClock(10.0)

    async def sleep(seconds: float) -> None:
        # What was sent before runs to its end first.
        for _ in range(5):
            await asyncio.sleep(0)
        clock.advance(seconds)

    def answer(query: np.ndarray) -> Any:
        if query[0] == 1:
            return Prediction(np.eye(10)[7], Outcome.RECONSTRUCTED, 9, 0, 12.5)
        return (
            Overloaded("4 batches wait", 0.5)
            if query[0] == 2
            else Prediction(np.eye(10)[query[0]], group=None)
        )

    shots = await open_loop([0.0, 1.0, 2.0], target(answer), start=10.0, clock=clock, sleep=sleep)
    records = to_records(shots, [0, 7, 2])
    assert [(r.query, r.planned, r.sent) for r in records] == [(0, 0.0, 0.0), (1, 1.0, 1.0), (2, 2.0, 2.0)]
    assert [r.outcome for r in records] == [Outcome.ORIGINAL, Outcome.RECONSTRUCTED, Outcome.FAILED]
    assert [(r.group, r.slot, r.lateness_ms) for r in records] == [
        (None, 1, 0.0),
        (9, 0, 12.5),
        (None, None, 0.0),
    ]
    assert [(r.status, r.predicted, r.correct) for r in records] == [
        (200, 0, True),
        (200, 7, True),
        (0, None, None),
    ]
    assert records[2].error == "Overloaded: 4 batches wait"
    assert records[2].latency_s == float("inf")
    assert [r.label for r in to_records(shots)] == [None] * 3


async def test_method_and_arguments_are_the_callers() -> None:
    handle = Handle(classify)
    await HandleTarget(handle, lambda i: np.array([i]), 30, method="ask", deadline_ms=200, redundancy=False)(
        3
    )
    assert handle.calls == [("ask", {"deadline_ms": 200, "redundancy": False})]


async def test_no_answer_in_time_is_given_up_and_withdrawn() -> None:
    handle = Handle(lambda query: None)
    with pytest.raises(SendFailed, match=r"timeout after 0.01 s"):
        await HandleTarget(handle, lambda i: np.array([i]), 0.01)(0)
    assert handle.responses[0].cancelled


async def test_reasons_are_the_servers_words() -> None:
    # A deadline that passed in the server is a TimeoutError too, and not the client's.
    assert await reason(DeadlineExceeded("no answer by the deadline")) == (
        "DeadlineExceeded: no answer by the deadline"
    )
    refused = InvalidInput("query", "shape [8, 8, 1]", [2])
    wrapped = RayTaskError("infer", "Traceback\n many\n lines", refused).as_instanceof_cause()
    assert await reason(wrapped) == "InvalidInput: query: expected shape [8, 8, 1], got [2]"
    late = RayTaskError("infer", "Traceback", DeadlineExceeded("too late")).as_instanceof_cause()
    assert await reason(late) == "DeadlineExceeded: too late"
    bug = RayTaskError("infer", "Traceback", KeyError("x")).as_instanceof_cause()
    assert await reason(bug) == "KeyError: 'x'"
    assert (await reason(ActorDiedError())).startswith("ActorDiedError: ")
    assert "\n" not in await reason(ActorDiedError())
    assert (await reason(RequestCancelledError("r1"))).startswith("RequestCancelledError")


async def test_a_bug_of_the_callers_is_not_a_failed_query() -> None:
    def broken(query: np.ndarray) -> Any:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        await target(broken)(0)
    with pytest.raises(KeyError):
        await target(broken).warm_up(4)


async def test_warming_up_needs_one_answer() -> None:
    handle = Handle(lambda query: classify(query) if query[0] == 5 else Overloaded("full", 1))
    await HandleTarget(handle, lambda i: np.array([i]), 30).warm_up(6, at_a_time=4)
    assert len(handle.calls) == 6
    with pytest.raises(SendFailed, match="no warm-up query of 3 was answered; the last: Overloaded: full"):
        await target(lambda query: Overloaded("full", 1)).warm_up(3)
    await target(lambda query: Overloaded("full", 1)).warm_up(0)
