"""An open-loop client: every query is sent at its planned time, whatever became of the ones before.

A closed loop (send, wait, send) slows down when the server does and so never sees the queue it would
have made ("coordinated omission"). Here latency runs from the *planned* time, and how late the
generator itself was is recorded with every query, because its own delays would otherwise be blamed on
the server.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from load_tests import oip
from load_tests.records import ClientRecord
from parm_ray.core import Clock, Outcome, monotonic
from parm_ray.stats import percentile

# A generator whose 99th-percentile send lateness exceeds this measures itself.
LAG_LIMIT_S = 0.005

# What a target returns for a query that got a response: `Reply` over HTTP, a prediction by handle.
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response. Header names are looked up case-insensitively."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class SendFailed(Exception):
    """No response: the message is the reason (timeout, connection refused, ...)."""


class GeneratorLagged(RuntimeError):
    """The load generator did not keep to its plan, so what was measured is not the system."""


@dataclass(frozen=True, slots=True)
class Shot(Generic[R]):
    """One sent query before it is looked at; times in seconds from the start of the run."""

    planned: float
    sent: float
    done: float
    result: R | SendFailed


class Watch(Protocol):
    """Watches a run from within and may end its sending."""

    def ended(self, i: int, shot: Shot[Any]) -> None:
        """Query i has ended."""

    def hopeless(self, now: float) -> bool:
        """Whether to send no more; asked before each query, `now` in seconds from the start of the run."""


Sleep = Callable[[float], Awaitable[object]]


async def open_loop(
    planned: Sequence[float],
    send: Callable[[int], Awaitable[R]],
    *,
    start: float,
    clock: Clock = monotonic,
    sleep: Sleep = asyncio.sleep,
    on_done: Callable[[R | SendFailed], None] | None = None,
    watch: Watch | None = None,
) -> list[Shot[R]]:
    """Send query i at `start + planned[i]` (seconds of `clock`) and wait until all have ended.

    `planned` ascends. `send` raises SendFailed when there is no response; any other exception is a bug
    of the caller's and ends the run. `on_done` is called as each query ends and must be quick. A shot
    for every query, or for those sent until `watch` found the rest hopeless.
    """

    async def shoot(i: int, at: float) -> Shot[R]:
        sent = clock() - start
        result: R | SendFailed
        try:
            result = await send(i)
        except SendFailed as failure:
            result = failure
        shot = Shot(at, sent, clock() - start, result)
        if watch is not None:
            watch.ended(i, shot)
        if on_done is not None:
            on_done(result)
        return shot

    tasks: list[asyncio.Task[Shot[R]]] = []
    with _no_gc_pauses():
        try:
            for i, at in enumerate(planned):
                # Behind schedule the delay is 0, which still lets replies be read in between.
                await sleep(max(0.0, start + at - clock()))
                if watch is not None and watch.hopeless(clock() - start):
                    break
                tasks.append(asyncio.create_task(shoot(i, float(at))))
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()


def to_records(
    shots: Sequence[Shot[Reply]], output_name: str, labels: Sequence[int] | None = None
) -> list[ClientRecord]:
    """Look at the replies, after the run. `labels[i]` is the true class of query i."""
    return [
        _record(i, shot, output_name, None if labels is None else int(labels[i]))
        for i, shot in enumerate(shots)
    ]


def send_lateness_p99(records: Sequence[ClientRecord]) -> float:
    """99th percentile of the generator's own lateness, seconds; 0 for no records."""
    return percentile([r.send_lateness_s for r in records], 0.99) if records else 0.0


def lagged(records: Sequence[ClientRecord], limit_s: float = LAG_LIMIT_S) -> bool:
    """Whether the generator could not keep to its plan, so that the run measures the generator."""
    return send_lateness_p99(records) > limit_s


def check_generator(records: Sequence[ClientRecord], limit_s: float = LAG_LIMIT_S) -> None:
    """Refuse a run in which the 99th percentile of the generator's lateness exceeds `limit_s` seconds.

    Raises GeneratorLagged with the figures and what to do.
    """
    late = send_lateness_p99(records)
    if late > limit_s:
        worst = max(r.send_lateness_s for r in records)
        over = sum(r.send_lateness_s > limit_s for r in records)
        raise GeneratorLagged(
            f"the generator was late: p99 {late * 1e3:.1f} ms, limit {limit_s * 1e3:g} ms "
            f"({over} of {len(records)} queries over it, the worst {worst * 1e3:.1f} ms). "
            "Run it on a core of its own, stop what else uses this machine, or lower the rate"
        )


def _record(i: int, shot: Shot[Reply], output_name: str, label: int | None) -> ClientRecord:
    def record(status: int, outcome: Outcome, error: str = "", **more: Any) -> ClientRecord:
        return ClientRecord(
            i, shot.planned, shot.sent, shot.done, status, outcome, label=label, error=error, **more
        )

    reply = shot.result
    if isinstance(reply, SendFailed):
        return record(0, Outcome.FAILED, str(reply))
    if reply.status != 200:
        return record(reply.status, Outcome.FAILED, f"HTTP {reply.status}: {oip.error_message(reply.body)}")
    headers = reply.headers
    try:
        answer = oip.outputs(headers, reply.body, output_name)
        return record(
            200,
            Outcome(headers.get("x-parm-outcome", "original")),
            group=int(headers["x-parm-group"]) if "x-parm-group" in headers else None,
            slot=int(headers["x-parm-slot"]) if "x-parm-slot" in headers else None,
            lateness_ms=float(headers.get("x-parm-lateness-ms", 0.0)),
            predicted=int(answer[0].argmax()),
        )
    except (ValueError, IndexError) as error:
        return record(200, Outcome.FAILED, f"malformed: {error}")


@contextmanager
def _no_gc_pauses() -> Iterator[None]:
    """A full collection in the middle of a run would make queries late; memory grows meanwhile."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
