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
        engine, sent = self._routed(demand, key), 1
        while True:
            try:
                answer, engine, calls = await self._raced(engine, demand, key, model, body, headers)
            except EngineFailedError as failed:
                other = await self._retried(demand, key, engine, sent)
                if other is None:
                    return self._given_up(failed, engine, sent)
                engine, sent = other, sent + 1
                continue
            said = {ENGINE: self._front_end.engines[engine], ATTEMPTS: str(sent + calls - 1)}
            return Answer(answer.status, {**answer.headers, **said}, answer.body)

    async def stream(
        self, demand: str, key: str | None, model: str, body: bytes, headers: dict[str, str]
    ) -> tuple[str, AsyncIterator[bytes]]:
        """Return the engine's name and the pieces of its answer, once the first is there.

        Retries end with the first piece: what a client has read cannot be taken back. Raises as `answer`.
        """
        engine, sent = self._routed(demand, key), 1
        while True:
            pieces = self._pieces(engine, model, body, headers)
            try:
                first = await anext(pieces)
            except (EngineFailedError, StopAsyncIteration) as failed:
                other = await self._retried(demand, key, engine, sent)
                if other is None:
                    why = str(failed) or "the engine ended its answer before it began"
                    raise ModelFailed(why) from failed
                engine, sent = other, sent + 1
                continue
            # What is returned has not begun, but `pieces` has: if nobody reads it, it is closed all the same.
            return self._front_end.engines[engine], _with_first(first, pieces)

    async def _pieces(
        self, engine: int, model: str, body: bytes, headers: dict[str, str]
    ) -> AsyncIterator[bytes]:
        """Yield a stream; it is in flight to its end, and its latency is the time to the first piece."""
        front_end, began = self._front_end, self._clock()
        front_end.begin(engine, began)
        outcome: bool | None = None
        took_s: float | None = None
        try:
            async for piece in self._engines.stream(engine, model, body, headers):
                took_s = self._clock() - began if took_s is None else took_s
                yield piece
            outcome = took_s is not None
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
                well = [call for call in done if call.exception() is None]
                if well or not left:
                    call = (well or list(done))[0]
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

    async def _retried(self, demand: str, key: str | None, engine: int, sent: int) -> int | None:
        """Wait, and return the engine of a retry: another, or the same where there is no other.

        None: no attempt is left, no budget, or every engine is full.
        """
        front_end, rule = self._front_end, self._front_end.rule.retry
        if sent >= rule.attempts or not front_end.budget.schedule(self._clock()):
            return None
        granted = False
        try:
            await asyncio.sleep(rule.wait_s(sent, self._rng.random()))
        finally:
            granted = front_end.budget.leave(self._clock())
        for without in ((engine,), ()) if granted else ():
            try:
                return front_end.another(demand, key, without)
            except NoEngine:
                continue
            except Overloaded:
                break
        return None

    def _given_up(self, failed: EngineFailedError, engine: int, sent: int) -> Answer:
        if failed.answer is None:
            raise ModelFailed(str(failed)) from failed
        said = {ENGINE: self._front_end.engines[engine], ATTEMPTS: str(sent)}
        return Answer(failed.answer.status, {**failed.answer.headers, **said}, failed.answer.body)


async def _with_first(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in pieces:
        yield piece
