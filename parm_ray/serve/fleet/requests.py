"""One request through a front end: an engine, a retry or a hedge where the budget allows, one answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

from parm_ray.core import Clock, ModelFailed, Overloaded
from parm_ray.routing.fleet.pick import NoEngine
from parm_ray.routing.planes import FrontEnd
from parm_ray.serve.fleet.engines import Answer, EngineFailedError, Engines
from parm_ray.serve.fleet.metrics import FrontEndMetrics

CALLED = {True: "ok", False: "failed", None: "withdrawn"}
ENGINE, ATTEMPTS = "x-parm-engine", "x-parm-attempts"


class Requests:
    """What a front end does with its requests. hedge_s: see `config.planes.RetrySettings`; None = never."""

    def __init__(
        self,
        front_end: FrontEnd,
        engines: Engines,
        clock: Clock,
        metrics: FrontEndMetrics,
        hedge_s: float | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._front_end, self._engines, self._clock = front_end, engines, clock
        self._metrics, self._hedge_s, self._rng = metrics, hedge_s, rng or random.Random()

    async def answer(
        self, demand: str, key: str | None, model: str, body: bytes, headers: dict[str, str]
    ) -> Answer:
        """Return an engine's answer, with headers that say which, and after how many calls.

        Raises Overloaded if the request is shed, NoEngine if nobody may serve it, ModelFailed if all that
        was tried failed without a word.
        """
        front_end, retry = self._front_end, self._front_end.rule.retry
        engine = self._routed(demand, key)
        sent = 1
        while True:
            try:
                answer, engine, calls = await self._raced(engine, demand, key, model, body, headers)
            except EngineFailedError as failed:
                if sent >= retry.attempts or not front_end.budget.schedule(self._clock()):
                    return self._given_up(failed, engine, sent)
                try:
                    await asyncio.sleep(retry.wait_s(sent, self._rng.random()))
                except asyncio.CancelledError:
                    front_end.budget.leave(self._clock())
                    raise
                other = self._other(demand, key, engine) if front_end.budget.leave(self._clock()) else None
                if other is None:
                    return self._given_up(failed, engine, sent)
                engine, sent = other, sent + 1
                continue
            said = {ENGINE: front_end.engines[engine], ATTEMPTS: str(sent + calls - 1)}
            return Answer(answer.status, {**answer.headers, **said}, answer.body)

    async def stream(
        self, demand: str, key: str | None, model: str, body: bytes, headers: dict[str, str]
    ) -> tuple[str, AsyncIterator[bytes]]:
        """Return the engine's name and the pieces of its answer, once the first is there.

        Retries end with the first piece: what a client has read cannot be taken back.
        """
        front_end, retry = self._front_end, self._front_end.rule.retry
        engine, sent = self._routed(demand, key), 1
        while True:
            began = self._clock()
            pieces = self._engines.stream(engine, model, body, headers)
            front_end.begin(engine, began)
            try:
                first = await anext(pieces)
            except BaseException as failed:
                broken = isinstance(failed, EngineFailedError | StopAsyncIteration)
                front_end.end(engine, began, self._clock(), False if broken else None)
                if not broken or sent >= retry.attempts or not front_end.budget.schedule(self._clock()):
                    raise _failed(failed) from failed
                await asyncio.sleep(retry.wait_s(sent, self._rng.random()))
                other = self._other(demand, key, engine) if front_end.budget.leave(self._clock()) else None
                if other is None:
                    raise _failed(failed) from failed
                engine, sent = other, sent + 1
                continue
            return front_end.engines[engine], self._rest(engine, began, first, pieces)

    async def _rest(
        self, engine: int, began: float, first: bytes, pieces: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        """Yield a stream; it is in flight to its end, its latency is the time to the first token."""
        front_end, took_s = self._front_end, self._clock() - began
        outcome: bool | None = None
        try:
            yield first
            async for piece in pieces:
                yield piece
            outcome = True
        except EngineFailedError:
            outcome = False
            raise
        finally:
            front_end.end(engine, began, self._clock(), outcome, took_s)
            self._metrics.called(front_end.engines[engine], CALLED[outcome])

    def _routed(self, demand: str, key: str | None) -> int:
        try:
            return self._front_end.route(demand, self._clock(), key)
        except Overloaded:
            self._metrics.shed(demand)
            raise

    async def _raced(
        self, engine: int, demand: str, key: str | None, model: str, body: bytes, headers: dict[str, str]
    ) -> tuple[Answer, int, int]:
        """Return an answer, the engine that gave it, and how many calls it took."""
        if self._hedge_s is None:
            return await self._called(engine, model, body, headers), engine, 1
        first = asyncio.ensure_future(self._called(engine, model, body, headers))
        calls = {first: engine}
        try:
            done, _ = await asyncio.wait(calls, timeout=self._hedge_s)
            if not done and self._front_end.budget.hedge(self._clock()):
                try:
                    other = self._front_end.another(demand, key, (engine,))
                except (NoEngine, Overloaded):
                    pass
                else:
                    calls[asyncio.ensure_future(self._called(other, model, body, headers))] = other
            left = set(calls)
            while True:
                done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                for call in done:
                    if call.exception() is None or not left:
                        return call.result(), calls[call], len(calls)
        finally:
            for call in calls:
                call.cancel()
            # Those that have lost settle their counts before the request is over; nobody hears their errors.
            await asyncio.gather(*calls, return_exceptions=True)

    async def _called(self, engine: int, model: str, body: bytes, headers: dict[str, str]) -> Answer:
        front_end, name = self._front_end, self._front_end.engines[engine]
        began = self._clock()
        front_end.begin(engine, began)
        outcome: bool | None = None
        try:
            answer = await self._engines.forward(engine, model, body, headers)
            outcome = True
            return answer
        except EngineFailedError:
            outcome = False
            raise
        finally:
            front_end.end(engine, began, self._clock(), outcome)
            self._metrics.called(name, CALLED[outcome])

    def _other(self, demand: str, key: str | None, engine: int) -> int | None:
        """Return another engine for a retry, the same where there is no other, None if all are full."""
        for without in ((engine,), ()):
            try:
                return self._front_end.another(demand, key, without)
            except NoEngine:
                continue
            except Overloaded:
                return None
        return None

    def _given_up(self, failed: EngineFailedError, engine: int, sent: int) -> Answer:
        if failed.answer is None:
            raise ModelFailed(str(failed)) from failed
        said = {ENGINE: self._front_end.engines[engine], ATTEMPTS: str(sent)}
        return Answer(failed.answer.status, {**failed.answer.headers, **said}, failed.answer.body)


def _failed(error: BaseException) -> BaseException:
    if isinstance(error, StopAsyncIteration):
        return ModelFailed("the engine ended its answer before it began")
    return ModelFailed(str(error)) if isinstance(error, EngineFailedError) else error
