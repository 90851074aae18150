"""Engines that do what a test says, behind a real front end, and the requests that it makes of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import numpy as np

from parm_ray.core import monotonic
from parm_ray.routing.fleet import MM1, Demand, Engine, Fleet
from parm_ray.routing.planes import FrontEnd, RetryRule
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


def some(names: str, **rule: Any) -> FrontEnd:
    engines = tuple(Engine(name, MM1(50.0)) for name in names)
    fleet = Fleet((Demand("x", 10.0),), engines, np.zeros((1, len(engines))))
    rules = {"retry": RetryRule(most=1.0, backoff_s=0.001), **rule}
    return front_end_of(fleet, "x", random.Random(3), **rules)


def pair(**rule: Any) -> FrontEnd:
    return some("ab", **rule)


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
