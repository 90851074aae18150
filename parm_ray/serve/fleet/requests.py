"""One request through a front end: an engine, a retry or a hedge where the budget allows, one answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from parm_ray.core import Clock, ModelFailed, Overloaded
from parm_ray.routing.fleet.pick import NoEngine
from parm_ray.routing.planes import FrontEnd
from parm_ray.serve.fleet.engines import Answer, EngineFailedError, Engines
from parm_ray.serve.fleet.metrics import FrontEndMetrics

CALLED = {True: "ok", False: "failed", None: "withdrawn"}
ENGINE, ATTEMPTS = "x-parm-engine", "x-parm-attempts"


@dataclass
class _Request:
    """What is asked, which engines were called for it so far, in order, and whether one has answered."""

    demand: str
    key: str | None
    model: str
    body: bytes
    headers: dict[str, str]
    tried: list[int] = field(default_factory=list)
    answered: bool = False


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
        request = _Request(demand, key, model, body, headers)
        engine: int | None = self._routed(request)
        while engine is not None:
            try:
                answer = await self._raced(engine, request)
                break
            except EngineFailedError as failed:
                last, engine = failed, await self._retried(request)
        else:
            if last.answer is None:
                raise ModelFailed(str(last)) from last
            answer = last.answer
        return Answer(answer.status, {**answer.headers, ATTEMPTS: str(len(request.tried))}, answer.body)

    async def stream(
        self, demand: str, key: str | None, model: str, body: bytes, headers: dict[str, str]
    ) -> tuple[dict[str, str], AsyncIterator[bytes]]:
        """Return headers as of `answer`, and the pieces of an engine's answer, once the first is there.

        Streams are not hedged, and retries end with the first piece: what a client has read cannot be taken
        back. Raises as `answer`, and what the engine says of a request that is wrong.
        """
        request = _Request(demand, key, model, body, headers)
        engine: int | None = self._routed(request)
        while engine is not None:
            pieces = self._pieces(engine, request)
            try:
                first = await anext(pieces)
            except (EngineFailedError, StopAsyncIteration) as failed:
                last, engine = failed, await self._retried(request)
                continue
            # What is returned has not begun, but `pieces` has: if nobody reads it, it is closed all the same.
            said = {ENGINE: self._front_end.engines[engine], ATTEMPTS: str(len(request.tried))}
            return said, _with_first(first, pieces)
        raise ModelFailed(str(last) or "the engine ended its answer before it began") from last

    def _routed(self, request: _Request) -> int:
        try:
            return self._front_end.route(request.demand, self._clock(), request.key)
        except Overloaded:
            self._metrics.shed(request.demand)
            raise

    async def _raced(self, engine: int, request: _Request) -> Answer:
        """Return an engine's answer or, where it takes long and the budget allows, the first of two."""
        if self._hedge_s is None:
            return await self._called(engine, request)
        calls = [asyncio.ensure_future(self._called(engine, request))]
        try:
            done, _ = await asyncio.wait(calls, timeout=self._hedge_s)
            if not done and (other := self._hedged(request)) is not None:
                calls.append(asyncio.ensure_future(self._called(other, request)))
            left = set(calls)
            while True:
                done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                well = [call for call in done if call.exception() is None]
                if well or not left:
                    return (well or list(done))[0].result()
        finally:
            for call in calls:
                call.cancel()
            # Those that have lost settle their counts before the request is over; nobody hears their errors.
            await asyncio.gather(*calls, return_exceptions=True)

    def _hedged(self, request: _Request) -> int | None:
        """Return an engine that was not tried and has room; None: there is none, or no budget."""
        front_end = self._front_end
        if len(request.tried) >= front_end.rule.retry.attempts:
            return None
        try:
            other = front_end.another(request.demand, request.key, request.tried)
        except (NoEngine, Overloaded):
            return None
        return other if front_end.budget.hedge(self._clock()) else None

    async def _called(self, engine: int, request: _Request) -> Answer:
        front_end, name = self._front_end, self._front_end.engines[engine]
        began = self._clock()
        front_end.begin(engine, began)
        request.tried.append(engine)
        outcome: bool | None = None
        try:
            answer = await self._engines.forward(engine, request.model, request.body, request.headers)
            outcome = request.answered = True
            return _signed(answer, name)
        except EngineFailedError as failed:
            outcome = False
            if failed.answer is None:
                raise
            raise EngineFailedError(str(failed), _signed(failed.answer, name)) from failed
        finally:
            front_end.end(engine, began, self._clock(), outcome, lost=request.answered)
            self._metrics.called(name, CALLED[outcome])

    async def _pieces(self, engine: int, request: _Request) -> AsyncIterator[bytes]:
        """Yield a stream; it is in flight to its end, and what its reader takes is not its latency."""
        front_end, clock = self._front_end, self._clock
        began = clock()
        front_end.begin(engine, began)
        request.tried.append(engine)
        outcome: bool | None = None
        some = False
        try:
            async for piece in self._engines.stream(engine, request.model, request.body, request.headers):
                some, given = True, clock()
                front_end.calls.hold(engine, began)
                try:
                    yield piece
                finally:
                    began += clock() - given
                    front_end.calls.resume(engine, began)
            outcome = some
        except EngineFailedError:
            outcome = False
            raise
        finally:
            front_end.end(engine, began, clock(), outcome)
            self._metrics.called(front_end.engines[engine], CALLED[outcome])

    async def _retried(self, request: _Request) -> int | None:
        """Wait, and return the engine of a retry; None: no attempt is left, no budget, or no engine."""
        front_end, tried = self._front_end, request.tried
        budget, rule = front_end.budget, front_end.rule.retry
        if len(tried) >= rule.attempts or not budget.schedule(self._clock()):
            return None
        try:
            await asyncio.sleep(rule.wait_s(len(tried), self._rng.random()))
        except asyncio.CancelledError:
            budget.drop()
            raise
        if not budget.leave():
            return None
        other = front_end.once_more(request.demand, request.key, tried)
        if other is None:
            budget.give_back()
        return other


def _signed(answer: Answer, engine: str) -> Answer:
    return Answer(answer.status, {**answer.headers, ENGINE: engine}, answer.body)


async def _with_first(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in pieces:
        yield piece
