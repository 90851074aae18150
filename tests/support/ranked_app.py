"""Replicas that say which of them they are, and an ingress that calls them many times in one request."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve import Application

api = FastAPI()


class Ranked:
    """Answers with its rank, after `wait_s`, which one of them may be told to take longer for."""

    def __init__(self, wait_s: float) -> None:
        self._rank = str(serve.get_replica_context().rank.rank)
        self._wait_s, self._slow = wait_s, 1.0

    def record_replica_metadata(self) -> dict[str, Any]:
        return {"rank": self._rank}

    async def __call__(self, request: Any = None) -> str:
        await asyncio.sleep(self._wait_s * self._slow)
        return self._rank

    async def slow(self, rank: str, times: float) -> None:
        if rank == self._rank:
            self._slow = times


@serve.deployment(num_replicas=1, ray_actor_options={"num_cpus": 0.1}, max_ongoing_requests=100)
@serve.ingress(api)
class Caller:
    def __init__(self, weighted: Any) -> None:
        self._weighted = weighted

    @api.get("/ask")
    async def ask(self, calls: int) -> dict[str, int]:
        """All of them share one request's id."""
        said = await asyncio.gather(*(self._weighted.remote() for _ in range(calls)), return_exceptions=True)
        return dict(Counter(str(one) for one in said))

    @api.get("/slow")
    async def slow(self, rank: str, times: float) -> None:
        await self._weighted.broadcast("slow", rank, times).results_async()


def build(args: dict[str, Any]) -> Application:
    """The deployment behind an ingress; its router is the YAML file's business."""
    return Caller.bind(ranked(0.02))  # type: ignore[attr-defined]


def direct(args: dict[str, Any]) -> Application:
    """The deployment as an ingress: the proxy calls it."""
    return ranked(0.005)


def ranked(wait_s: float) -> Application:
    """Three replicas."""
    options = {"num_replicas": 3, "ray_actor_options": {"num_cpus": 0.1}, "max_ongoing_requests": 20}
    return serve.deployment(name="Ranked", **options)(Ranked).bind(wait_s)  # type: ignore[call-overload]
