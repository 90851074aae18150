"""The engines of a fleet as front ends and the control plane reach them: by Serve handle, once found."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ray import serve
from ray.serve.handle import DeploymentHandle

from parm_ray.core import ParmError
from parm_ray.serve.board import board_of
from parm_ray.serve.fleet.signals import EngineSignals
from parm_ray.serve.http_errors import status_of
from parm_ray.serve.transport import BY_VALUE_BYTES

log = logging.getLogger("ray.serve")

# Between two looks for an application that is not there yet.
LOOK_S = 0.5

# Between two looks whether one without replicas is another deployment by now.
LOOK_AGAIN_S = 5.0

# What says that the engine could not do it. 504 is no fault of it, and no use to try again: the request's own
# deadline has passed.
FAILED = frozenset({500, 502, 503})


class Engine(Protocol):
    """What the ingress of an application has to have to be an engine of a fleet."""

    async def forward(
        self, model: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        """Answer a request that came to a front end: status, headers, body. Errors are statuses, too."""

    def stream(self, model: str, body: bytes, headers: dict[str, str]) -> AsyncIterator[bytes]:
        """Yield an answer piece by piece; only for models that have such answers."""

    async def signals(self) -> EngineSignals:
        """Say how it is. Cheap: asked every interval. (Serve would run what is not async on a thread.)"""


@dataclass(frozen=True)
class Answer:
    """What goes back to the client."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class EngineFailedError(Exception):
    """A call did not end well. `answer` is what the engine said, None = it said nothing."""

    def __init__(self, why: str, answer: Answer | None = None) -> None:
        super().__init__(why)
        self.answer = answer


@dataclass(frozen=True)
class _Handles:
    """One application's, each made once: a copy with other options costs as much as a call."""

    deployment: str
    by_value: DeploymentHandle
    by_reference: DeploymentHandle
    stream: DeploymentHandle
    signals: DeploymentHandle

    @classmethod
    def of(cls, handle: DeploymentHandle) -> _Handles:
        forward = handle.options(method_name="forward")
        return cls(
            handle.deployment_name,
            forward.options(_by_reference=False),
            forward.options(_by_reference=True),
            handle.options(method_name="stream", stream=True),
            handle.options(method_name="signals"),
        )


class Engines:
    """Handles of applications by index; `connect` runs in the background and finds them.

    timeout_s: within which a call has its answer, and a stream its first piece, and the next after each.
    on_replicas: called with (index, replicas) on the running loop whenever an engine's number of replicas
    changes. Engines whose ingress has another router than `PlacedRouter` say nothing of it, and count as one
    from when they are found.
    """

    def __init__(
        self,
        apps: Sequence[str],
        on_replicas: Callable[[int, int], None],
        timeout_s: float,
        delays_s: Sequence[float] | None = None,
    ) -> None:
        self.apps = tuple(apps)
        self._on_replicas, self._timeout_s = on_replicas, timeout_s
        self._delays_s = delays_s
        self._handles: dict[int, _Handles] = {}
        self._counts: dict[int, int] = {}

    async def connect(self) -> None:
        """Look for the applications, and again for those that have no replicas, for ever.

        An application may come back as another deployment, whose handle is another one.
        """
        looked: dict[int, float] = {}
        loop = asyncio.get_running_loop()
        while True:
            for j, app in enumerate(self.apps):
                again = j not in self._handles or not self._counts[j]
                if not again or (j in self._handles and loop.time() < looked.get(j, 0.0) + LOOK_AGAIN_S):
                    continue
                looked[j] = loop.time()
                try:
                    handle = await find(app)
                    if handle is not None:
                        self._use(j, handle)
                except Exception:  # Whatever is wrong with one, the others are looked for, and it again.
                    log.exception("%s: cannot be followed", app)
            await asyncio.sleep(LOOK_S)

    def _use(self, j: int, handle: DeploymentHandle) -> None:
        before = self._handles.get(j)
        if before is not None and before.deployment == handle.deployment_name:
            return
        handles = self._handles[j] = _Handles.of(handle)

        def told(nodes: Mapping[str, str]) -> None:
            # One that has been given up may still be heard of.
            if self._handles[j] is handles:
                self._count(j, len(nodes))

        self._count(j, 1)
        board_of(handle.app_name, handle.deployment_name).follow(told)

    def _count(self, j: int, replicas: int) -> None:
        self._counts[j] = replicas
        self._on_replicas(j, replicas)

    async def forward(self, j: int, model: str, body: bytes, headers: dict[str, str]) -> Answer:
        """Send a request to engine j. Raises EngineFailedError."""
        handle = self._handle(j)
        away = self._away_s(j) / 2

        async def there_and_back() -> Any:
            await asyncio.sleep(away)
            call = handle.by_reference if len(body) > BY_VALUE_BYTES else handle.by_value
            said = await answered(call.remote(model, body, headers))
            await asyncio.sleep(away)
            return said

        try:
            status, out, content = await asyncio.wait_for(there_and_back(), self._timeout_s)
        except asyncio.TimeoutError:  # TimeoutError only since Python 3.11
            raise EngineFailedError(f"{self.apps[j]}: no answer within {self._timeout_s:g} s") from None
        except Exception as error:  # Whatever an engine raises: Serve hands its own exceptions on, too.
            raise EngineFailedError(f"{self.apps[j]}: {type(error).__name__}: {str(error)[:200]}") from error
        answer = Answer(status, out, content)
        if status in FAILED:
            raise EngineFailedError(f"{self.apps[j]}: {status}", answer)
        return answer

    async def stream(self, j: int, model: str, body: bytes, headers: dict[str, str]) -> AsyncIterator[bytes]:
        """Yield what engine j streams. Raises EngineFailedError at any piece, or the engine's own refusal."""
        handle = self._handle(j)
        await asyncio.sleep(self._away_s(j))
        pieces: Any = handle.stream.remote(model, body, headers)
        ended = False
        try:
            while True:
                piece = await asyncio.wait_for(anext(pieces), self._timeout_s)
                yield piece
        except StopAsyncIteration:
            ended = True
        except asyncio.TimeoutError:
            raise EngineFailedError(f"{self.apps[j]}: nothing for {self._timeout_s:g} s") from None
        except Exception as error:  # Whatever an engine raises: Serve hands its own exceptions on, too.
            if isinstance(error, ParmError) and status_of(error)[0] not in FAILED:
                # The request is wrong. Ray has its own kind of the error around it.
                raise getattr(error, "cause", error) from None
            raise EngineFailedError(f"{self.apps[j]}: {type(error).__name__}: {str(error)[:200]}") from error
        finally:
            if not ended:
                pieces.cancel()

    def _handle(self, j: int) -> _Handles:
        if j not in self._handles:
            raise EngineFailedError(f"{self.apps[j]}: no such application yet")
        return self._handles[j]

    async def round_trips(self, timeout_s: float) -> dict[str, float]:
        """Return seconds to each engine and back, by application; those that answer within the time.

        Serve's own way of a call is in it, which a request goes, too.
        """
        loop = asyncio.get_running_loop()

        async def one(j: int) -> float | None:
            began = loop.time()
            said = await self.signals(j, timeout_s)
            return None if said is None else loop.time() - began + self._away_s(j)

        found = await asyncio.gather(*(one(j) for j in range(len(self.apps))))
        return {app: seconds for app, seconds in zip(self.apps, found, strict=True) if seconds is not None}

    def _away_s(self, j: int) -> float:
        return 0.0 if self._delays_s is None else self._delays_s[j]

    async def signals(self, j: int, timeout_s: float) -> EngineSignals | None:
        """Ask engine j how it is; None = it does not say in time."""
        handle = self._handles.get(j)
        if handle is None:
            return None
        try:
            said: EngineSignals = await asyncio.wait_for(answered(handle.signals.remote()), timeout_s)
            return said
        except Exception as error:  # Whatever is wrong with an engine, the others go on.
            log.debug("%s: no signals: %s", self.apps[j], error)
            return None


async def answered(response: Any) -> Any:
    """Await a call of a handle. Who gives up on it ends it at the replica, too: Serve alone would not."""
    try:
        return await response
    except asyncio.CancelledError:
        response.cancel()
        raise


async def find(app: str) -> Any:
    """Return the handle of an application's ingress, None if it is not there (yet)."""
    try:
        handle = await asyncio.to_thread(serve.get_app_handle, app)
    except Exception as error:  # Serve says "no such application" in several ways.
        log.debug("%s: not found: %s", app, error)
        return None
    if not handle.is_initialized:
        # On this loop: a hop to another thread and back costs more than routing.
        handle._init(_run_router_in_separate_loop=False)
    return handle
