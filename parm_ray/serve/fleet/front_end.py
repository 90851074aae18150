"""A front end's deployment: HTTP and handle methods, a data plane that picks, engines that answer.

Three ways that do not touch: requests pick from local state; signals of replicas come by Serve's own channel;
reports go and snapshots come in the background.
"""

# No `from __future__ import annotations` here: Serve rebuilds the routes from the class.

import asyncio
import logging
import random
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from ray import serve

from parm_ray.config.fleet_file import FleetSettings
from parm_ray.core import InvalidInput, ParmError, monotonic
from parm_ray.routing.planes import FrontEnd
from parm_ray.serve import responses
from parm_ray.serve.body import read_body
from parm_ray.serve.fleet.engines import Answer, Engines, find
from parm_ray.serve.fleet.metrics import FrontEndMetrics
from parm_ray.serve.fleet.pull import pull
from parm_ray.serve.fleet.requests import Requests
from parm_ray.serve.http_errors import status_of

DEMAND, KEY = "x-parm-demand", "x-parm-session"

# Of a refusal: milliseconds that it took here, once the request was read.
SPENT = "x-parm-spent-ms"

# Round trips to each engine that the least is taken of.
TRIPS = 10

# Of a front end's answer; everything else is its engine's.
_HOP_BY_HOP = frozenset({"content-length", "transfer-encoding", "connection"})

log = logging.getLogger("ray.serve")
api = FastAPI(title="parm_ray front end")


@api.exception_handler(ParmError)
async def _refuse(request: Request, error: ParmError) -> JSONResponse:
    status, headers = status_of(error)
    if (began := getattr(request.state, "began", None)) is not None:
        headers = {**headers, SPENT: f"{1e3 * (monotonic() - began):.3f}"}
    return JSONResponse(responses.error_body(str(error)), status, headers)


# Above the class: `serve.ingress` freezes the routes with what is defined by then.
def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}


def _without_hops(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}


@serve.ingress(api)
class FleetFrontEnd:
    """One front end; every replica of it is a data plane of its own.

    control: the control plane's application.
    """

    async def __init__(  # type: ignore[misc]
        self, settings: FleetSettings, name: str, control: str, limit_bytes: int
    ) -> None:
        fleet, plane = settings.fleet(), settings.data_plane
        self._limit_bytes, self._control_app = limit_bytes, control
        self._pull_s = plane.pull_ms / 1e3
        self._measures = settings.control.network == "measured"
        # Of each engine the last ones: the least of them has waited for nothing.
        self._trips: dict[str, deque[float]] = {}
        replica = serve.get_replica_context().replica_id.unique_id
        rng = random.Random(f"{name}/{replica}")
        self._front_end = FrontEnd(name, replica, fleet, plane.rule(), rng, monotonic())
        self._metrics = FrontEndMetrics(name)
        row = next(i for i, demand in enumerate(fleet.demands) if demand.front_end == name)
        self._engines = Engines(
            [engine.app or engine_name for engine_name, engine in settings.engines.items()],
            lambda j, replicas: self._front_end.ready(self._front_end.engines[j], replicas, monotonic()),
            plane.timeout_ms / 1e3,
            fleet.network_s[row].tolist() if plane.emulate_network else None,
        )
        # Until it is found an engine has no replicas.
        for engine_name in self._front_end.engines:
            self._front_end.ready(engine_name, 0, monotonic())
        hedge_ms = plane.retry.hedge_after_ms
        self._requests = Requests(
            self._front_end,
            self._engines,
            monotonic,
            self._metrics,
            None if hedge_ms is None else hedge_ms / 1e3,
            rng,
        )
        self._rng = rng
        loop = asyncio.get_running_loop()
        forever = (self._engines.connect(), self._pull_forever(), self._refresh_forever())
        self._tasks = [loop.create_task(one) for one in forever]

    # -- by handle -------------------------------------------------------------------------------

    async def infer(
        self,
        model: str,
        body: bytes,
        headers: dict[str, str] | None = None,
        demand: str | None = None,
        key: str | None = None,
    ) -> Answer:
        """Answer a request as it would come over HTTP; errors of engines are statuses.

        demand: its name at this front end; None = the only one. key: of a session, whose requests stay at
        one engine. Raises Overloaded, NoEngine, ModelFailed, or InvalidInput for a demand that there is not.
        """
        return await self._requests.answer(self._demand(demand), key, model, body, headers or {})

    def state(self) -> dict[str, Any]:
        """What this replica knows and does now."""
        front_end, now = self._front_end, monotonic()
        budget = front_end.budget
        return {
            "front_end": front_end.name,
            "replica": front_end.replica,
            "version": 0 if front_end.snapshot is None else front_end.snapshot.version,
            "freshness": front_end.freshness(now),
            "age_s": front_end.age_s(now),
            "weights": front_end.weights(),
            "in_flight": dict(zip(front_end.engines, front_end.in_flight.tolist(), strict=True)),
            "retries": {
                "ratio": budget.ratio,
                "offered": budget.offered,
                "granted": budget.granted,
                "refused": budget.refused,
                "in_backoff": budget.in_backoff,
            },
        }

    # -- by HTTP ---------------------------------------------------------------------------------

    @api.post("/v2/models/{model}/infer")
    @api.post("/v2/models/{model}/generate")
    async def http_infer(self, request: Request, model: str) -> Response:
        """Send the request to an engine; x-parm-demand names its kind, x-parm-session its session."""
        body = await read_body(request, self._limit_bytes)
        request.state.began = monotonic()
        demand = self._demand(request.headers.get(DEMAND))
        key = request.headers.get(KEY)
        answer = await self._requests.answer(demand, key, model, body, _passed_on(request.headers))
        return Response(answer.body, answer.status, _without_hops(answer.headers))

    @api.post("/v2/models/{model}/generate_stream")
    async def http_stream(self, request: Request, model: str) -> Response:
        """Send the request to an engine, and its answer on piece by piece (server-sent events)."""
        body = await read_body(request, self._limit_bytes)
        request.state.began = monotonic()
        demand = self._demand(request.headers.get(DEMAND))
        key = request.headers.get(KEY)
        headers, pieces = await self._requests.stream(demand, key, model, body, _passed_on(request.headers))
        return StreamingResponse(pieces, media_type="text/event-stream", headers=headers)

    @api.get("/v2/health/live")
    async def http_live(self) -> dict[str, bool]:
        """Whether this process answers."""
        return {"live": True}

    @api.get("/v2/health/ready")
    async def http_ready(self, response: Response) -> dict[str, bool]:
        """Whether every demand has an engine; 503 while one has not."""
        ready = all(any(weights.values()) for weights in self._front_end.weights().values())
        response.status_code = 200 if ready else 503
        return {"ready": ready}

    @api.get("/v2/routing")
    async def http_state(self) -> dict[str, Any]:
        """What the replica that answers knows and does now."""
        return self.state()

    def _demand(self, name: str | None) -> str:
        names = list(self._front_end.weights())
        if name is None and len(names) == 1:
            return names[0]
        if name is None and "default" in names:
            return "default"
        if name not in names:
            raise InvalidInput(DEMAND, f"one of {', '.join(names)}", name)
        return name

    # -- in the background -----------------------------------------------------------------------

    async def _round_trips(self) -> dict[str, float]:
        now = await self._engines.round_trips(self._pull_s / 2)
        found = {}
        for name, app in zip(self._front_end.engines, self._engines.apps, strict=True):
            if app in now:
                trips = self._trips.setdefault(name, deque(maxlen=TRIPS))
                trips.append(now[app])
                found[name] = min(trips)
        return found

    async def _pull_forever(self) -> None:
        control = None
        heard = True
        while True:
            # Jitter: a thousand front ends that were deployed together must not call together for ever.
            await asyncio.sleep(self._pull_s * self._rng.uniform(0.9, 1.1))
            try:
                control = control or await find(self._control_app)
                if control is None:
                    raise ConnectionError(f"no application {self._control_app} yet")
                await self._pull(control)
                heard = True
            except Exception as error:  # Whatever is wrong with the control plane, requests go on.
                if heard:
                    log.warning("no word from the control plane, the last plan stays: %s", str(error)[:200])
                # The next one may be another deployment.
                heard, control = False, None

    async def _refresh_forever(self) -> None:
        """Take account of the time; it passes while the control plane cannot be reached, too."""
        while True:
            await asyncio.sleep(self._pull_s)
            try:
                self._front_end.refresh(monotonic())
                self._metrics.report(self._front_end, monotonic())
            except Exception:  # The next time must come.
                log.exception("a front end could not take account of the time")

    async def _pull(self, control: Any) -> None:
        """Bring one report, take the newest snapshot. Raises whatever the control plane, or the way, has."""
        front_end = self._front_end
        report = front_end.report(monotonic())
        if self._measures:
            report = replace(report, network_s=await self._round_trips())
        held, age_s = front_end.snapshot, front_end.age_s(monotonic())
        newer = await pull(control, report, held, age_s)
        if newer is not None:
            front_end.install(newer, monotonic())
