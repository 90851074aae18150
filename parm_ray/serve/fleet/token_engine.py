"""An EMULATED language-model engine: it waits as one would, and streams tokens that mean nothing.

A stand-in where there is no accelerator, named so in every answer. What a real engine has to have is the
protocol `serve.fleet.engines.Engine`.
"""

# No `from __future__ import annotations` here: Serve rebuilds the routes from the class.

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import FastAPI
from pydantic import Field
from ray import serve

from parm_ray.config.strict import Strict
from parm_ray.config.token_engine import TokenEngineSettings
from parm_ray.core import Clock, InvalidInput, monotonic
from parm_ray.serve import responses
from parm_ray.serve.fleet.signals import EngineSignals

_LONGEST = 100_000

# Times are means of so many seconds, and of so many tokens at most.
_WINDOW_S, _KEPT = 10.0, 10_000


class Disturbance(Strict):
    """What is wrong with an engine: everything takes `slow` times as long; every request fails."""

    slow: Annotated[float, Field(gt=0, le=1000)] = 1.0
    failing: bool = False


api = FastAPI(title="parm_ray emulated engine")


class _BrokenError(RuntimeError):
    """The emulated failure."""


_JSON = {"content-type": "application/json"}


def _mean(times: deque[tuple[float, float]], since: float) -> float | None:
    """Return the mean of those that were measured since then; of pairs (when, how long)."""
    while times and times[0][0] < since:
        times.popleft()
    return sum(seconds for _, seconds in times) / len(times) if times else None


def _asked(body: bytes) -> tuple[int, int]:
    """Return the prompt's tokens (words) and how many are asked for."""
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("body", "a JSON object", str(error)[:100] or "nested too deeply") from None
    if not isinstance(document, dict) or not isinstance(document.get("text_input"), str):
        raise InvalidInput("text_input", "a string", "none" if isinstance(document, dict) else "no object")
    parameters = document.get("parameters") or {}
    count = parameters.get("max_tokens", 16) if isinstance(parameters, dict) else None
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _LONGEST:
        raise InvalidInput("parameters.max_tokens", f"1..{_LONGEST}", str(count)[:40])
    return len(document["text_input"].split()), count


# Below all that it uses: `serve.ingress` freezes it with what is defined by then.
@serve.ingress(api)
class TokenEngine:
    """One replica: prompts are read one at a time, answers are written `slots` at a time.

    The time to the first token is a wait for a slot and for the prompts before it, and the prompt's own; the
    time between two grows with the sequences that are written together.
    """

    def __init__(self, settings: TokenEngineSettings, clock: Clock = monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._slots = asyncio.Semaphore(settings.slots)
        self._prefill = asyncio.Lock()
        self._active = self._queued = 0
        self._slow, self._failing = 1.0, False
        self._first: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        self._between: deque[tuple[float, float]] = deque(maxlen=_KEPT)

    async def forward(
        self, model: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        """Answer at once, when the last token is there."""
        began, first = self._clock(), 0.0
        tokens = []
        try:
            async for token in self._tokens(body):
                first = first or self._clock() - began
                tokens.append(token)
        except InvalidInput as error:
            return 400, _JSON, json.dumps(responses.error_body(str(error))).encode()
        except _BrokenError:
            return 500, _JSON, json.dumps(responses.error_body("emulated failure")).encode()
        answer = {
            "model_name": model,
            "text_output": " ".join(tokens),
            "emulated": True,
            "ttft_ms": 1e3 * first,
            "total_ms": 1e3 * (self._clock() - began),
        }
        return 200, _JSON, json.dumps(answer).encode()

    async def stream(self, model: str, body: bytes, headers: dict[str, str]) -> AsyncIterator[bytes]:
        """Yield a server-sent event a token."""
        async for token in self._tokens(body):
            event = {"model_name": model, "text_output": token, "emulated": True}
            yield f"data: {json.dumps(event)}\n\n".encode()

    async def signals(self) -> EngineSignals:
        """Whoever asks: nothing is forgotten for it."""
        utilization = min(1.0, self._active / self._settings.slots)
        since = self._clock() - _WINDOW_S
        return EngineSignals(
            1.0, utilization, self._queued, _mean(self._first, since), _mean(self._between, since)
        )

    @api.post("/disturb")
    async def disturb(self, disturbance: Disturbance) -> Disturbance:
        """For experiments: how this replica is from now on; what is not said is as it should be."""
        self._slow, self._failing = disturbance.slow, disturbance.failing
        return disturbance

    @api.get("/state")
    async def state(self) -> dict[str, int]:
        """Sequences that are being written now, and those that wait for a slot."""
        return {"active": self._active, "queued": self._queued}

    async def _tokens(self, body: bytes) -> AsyncIterator[str]:
        prompt, count = _asked(body)
        if self._failing:
            raise _BrokenError
        settings, began = self._settings, self._clock()
        self._queued += 1
        try:
            await self._slots.acquire()
        finally:
            self._queued -= 1
        self._active += 1
        try:
            async with self._prefill:
                await asyncio.sleep(self._slow * (settings.prefill_ms + prompt * settings.prompt_ms) / 1e3)
            self._first.append((self._clock(), self._clock() - began))
            yield "token0"
            for number in range(1, count):
                last = self._clock()
                among = 1 + settings.batch_slope * (self._active - 1)
                await asyncio.sleep(self._slow * settings.token_ms * among / 1e3)
                self._between.append((self._clock(), self._clock() - last))
                yield f"token{number}"
        finally:
            self._active -= 1
            self._slots.release()
