"""Requests to the front ends of an emulated fleet: at planned times, or one after another.

An open loop sends whatever became of the requests before; that is what users do, and what latencies are taken
from. A closed loop of more requests than the engines have slots keeps them busy without ever overwhelming
what leads to them; that is how much they can do here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import aiohttp
import numpy as np

from load_tests.client import Reply, SendFailed, Shot, open_loop
from load_tests.first_served import first_served
from parm_ray.core import monotonic
from parm_ray.workload import poisson

FRONT_ENDS, ENGINES = ("east", "west"), ("east", "west", "south")

# Of an engine of serve_configs/routing/emulated_fleet.yaml: requests at a time, and what one takes, 5 ms for
# a prompt and 7 more tokens of 10 ms.
SLOTS, TOKENS = 2, 8
SERVICE_S = 0.005 + 0.010 * (TOKENS - 1)
NOMINAL = len(ENGINES) * SLOTS / SERVICE_S

# A closed loop waits so long after a refusal: it is there to keep engines busy, not front ends.
PAUSE_S = 0.05


@dataclass
class Closed:
    """What a closed loop of so many requests at a time saw, its first fifth left out.

    answered_per_s: requests; statuses: of all; p50_ms, p99_ms: of those answered, from when they were sent.
    """

    workers: int
    answered_per_s: float
    statuses: dict[str, int]
    p50_ms: float
    p99_ms: float


@dataclass
class Fleet:
    """The front ends through a session. batch: the share of requests that are of the cheaper demand."""

    session: aiohttp.ClientSession
    batch: float
    body: dict[str, object] = field(
        default_factory=lambda: {"text_input": "a prompt", "parameters": {"max_tokens": TOKENS}}
    )

    async def send(self, front_end: str, demand: str) -> Reply:
        """Send one request. Raises SendFailed."""
        try:
            async with self.session.post(
                f"/{front_end}/v2/models/llm/generate", json=self.body, headers={"x-parm-demand": demand}
            ) as answer:
                return Reply(answer.status, answer.headers, await answer.read())
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise SendFailed(str(error)) from None

    async def open(self, rate: float, seconds: float, seed: int) -> list[tuple[str, Shot[Reply]]]:
        """Send Poisson requests, so many per second; return each with its demand."""
        rng = np.random.default_rng(seed)
        planned = poisson(rate, rng=rng, duration=seconds)
        demands = self._demands(rng, len(planned))
        front_ends = rng.choice(FRONT_ENDS, len(planned)).tolist()

        async def send(i: int) -> Reply:
            return await self.send(front_ends[i], demands[i])

        with first_served():
            shots = await open_loop(planned.tolist(), send, start=monotonic() + 0.1)
        return list(zip(demands, shots, strict=True))

    async def closed(self, workers: int, seconds: float, seed: int) -> Closed:
        """Keep so many requests out for a while, spread over the front ends, and count what is answered."""
        start = monotonic()
        since, end = start + seconds / 5, start + seconds
        statuses: Counter[str] = Counter()
        times: list[float] = []

        async def work(number: int) -> None:
            rng = np.random.default_rng((seed, number))
            front_end = FRONT_ENDS[number % len(FRONT_ENDS)]
            while (began := monotonic()) < end:
                try:
                    status = (await self.send(front_end, self._demands(rng, 1)[0])).status
                except SendFailed:
                    status = 0
                done = monotonic()
                if since <= done < end:
                    statuses[str(status or "no response")] += 1
                    if status == 200:
                        times.append(1e3 * (done - began))
                if status != 200:
                    await asyncio.sleep(PAUSE_S)

        with first_served():
            await asyncio.gather(*(work(number) for number in range(workers)))
        p50, p99 = np.quantile(times, (0.5, 0.99)).tolist() if times else (float("nan"),) * 2
        return Closed(workers, len(times) / (end - since), dict(statuses), p50, p99)

    def _demands(self, rng: np.random.Generator, count: int) -> list[str]:
        found: list[str] = np.where(rng.random(count) < self.batch, "batch", "default").tolist()
        return found
