"""The open-loop client's target for a Serve handle: no HTTP, from a driver connected to the cluster.

    ray.init(address=...)
    target = HandleTarget(serve.get_app_handle("parm"), lambda i: images[i], timeout_s=15)
    await target.warm_up(40)
    shots = await client.open_loop(planned, target, start=monotonic() + 0.2)
    records = to_records(shots, labels)

What it leaves out beside HTTP is the proxy and the parsing; what it adds is that this process also
runs Ray's own threads. So latencies by handle and over HTTP are not to be set side by side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException

from load_tests.client import SendFailed, Shot
from load_tests.records import ClientRecord
from parm_ray.core import Outcome, ParmError


class Answered(Protocol):
    """What is read of a handle's prediction; `output` is `[*output]` of one query."""

    output: NDArray[np.generic]
    outcome: Outcome
    group: int | None
    slot: int | None
    lateness_ms: float


class HandleTarget:
    """One model behind a handle. Call it with a query's number to send that query."""

    def __init__(
        self,
        handle: Any,
        query: Callable[[int], NDArray[np.generic]],
        timeout_s: float,
        *,
        method: str = "infer",
        **arguments: Any,
    ) -> None:
        """`query(i)` is query i, `[*input]`; `timeout_s` bounds one query.

        handle: a DeploymentHandle with `method`, which is called with the query and `arguments`
        (say, deadline_ms=200 or redundancy=False).
        """
        # Looked up once: each look-up of a method makes a new handle.
        self._method = getattr(handle, method)
        self._query = query
        self._timeout_s = timeout_s
        self._arguments = arguments

    async def __call__(self, i: int) -> Answered:
        """Send query i and return the prediction. Raises SendFailed with the reason if there is none."""
        try:
            response = self._method.remote(self._query(i), **self._arguments)
            answer = asyncio.ensure_future(_resolved(response))
            try:
                # Not wait_for: a deadline that passed in the server is a TimeoutError too.
                await asyncio.wait([answer], timeout=self._timeout_s)
                if not answer.done():
                    response.cancel()
                    raise SendFailed(f"timeout after {self._timeout_s:g} s")
                return answer.result()
            finally:
                answer.cancel()
        except (ParmError, RayError, RayServeException) as error:
            raise SendFailed(_reason(error)) from None

    async def warm_up(self, queries: int, at_a_time: int = 4) -> None:
        """Send `queries` unmeasured queries, `at_a_time` of them at once; the first also starts the router.

        Raises SendFailed if none of them was answered.
        """
        failed: list[SendFailed] = []
        for begin in range(0, queries, at_a_time):
            shots = (self(i) for i in range(begin, min(begin + at_a_time, queries)))
            for result in await asyncio.gather(*shots, return_exceptions=True):
                if isinstance(result, SendFailed):
                    failed.append(result)
                elif isinstance(result, BaseException):
                    raise result
        if queries and len(failed) == queries:
            raise SendFailed(f"no warm-up query of {queries} was answered; the last: {failed[-1]}")


def to_records(shots: Sequence[Shot[Answered]], labels: Sequence[int] | None = None) -> list[ClientRecord]:
    """Look at the predictions, after the run. `labels[i]` is the true class of query i.

    There is no HTTP status: 200 stands for an answer, 0 for none, as for a response that never came.
    """
    return [_record(i, shot, None if labels is None else int(labels[i])) for i, shot in enumerate(shots)]


async def _resolved(response: Any) -> Answered:
    answered: Answered = await response
    return answered


def _record(i: int, shot: Shot[Answered], label: int | None) -> ClientRecord:
    times = (i, shot.planned, shot.sent, shot.done)
    got = shot.result
    if isinstance(got, SendFailed):
        return ClientRecord(*times, 0, Outcome.FAILED, label=label, error=str(got))
    return ClientRecord(
        *times,
        200,
        Outcome(got.outcome),
        group=got.group,
        slot=got.slot,
        lateness_ms=float(got.lateness_ms),
        predicted=int(np.asarray(got.output).argmax()),
        label=label,
    )


def _reason(error: Exception) -> str:
    # Ray wraps what a deployment raised, with its traceback over many lines; the cause says it in one.
    cause = getattr(error, "cause", None) or error
    first_line = str(cause).strip().partition("\n")[0]
    return f"{type(cause).__name__}: {first_line}"[:240]
