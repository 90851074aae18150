"""The ingress deployment: the Open Inference Protocol and the handle methods, both thin.

Requests are parsed and answers written by `protocol`; what is answered comes from `driver`.
"""

# No `from __future__ import annotations` here: Serve rebuilds the routes from the class, and FastAPI
# then takes a parameter whose annotation is the string "Request" for a query parameter.

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from numpy.typing import ArrayLike, NDArray
from ray import serve
from ray.serve.handle import DeploymentHandle
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

import parm_ray
from parm_ray.config import Settings
from parm_ray.core import InvalidInput, ParmError, UnknownModel, monotonic
from parm_ray.groups.lanes import DEPLOYED
from parm_ray.models.loading import plan_code
from parm_ray.models.manifest import Manifest
from parm_ray.redundancy import RedundancyPlan, ShadowDraw
from parm_ray.serve import protocol, responses, schemas
from parm_ray.serve.assembly import assemble
from parm_ray.serve.body import read_body
from parm_ray.serve.fleet.signals import EngineSignals
from parm_ray.serve.following import Following, Report
from parm_ray.serve.http_errors import status_of
from parm_ray.serve.intake import check_deadline, check_queries, check_query, check_redundancy
from parm_ray.serve.metrics import ServeObserver
from parm_ray.serve.observations import Observations
from parm_ray.serve.prediction import Prediction
from parm_ray.serve.recorder import recorder_of
from parm_ray.serve.shadow import Shadows
from parm_ray.serve.stats import IngressStats, repeat

api = FastAPI(
    title="parm_ray",
    version=parm_ray.__version__,
    description="Open Inference Protocol v2 with parity-model redundancy.",
)


@api.exception_handler(ParmError)
async def _refuse(_: Request, error: ParmError) -> JSONResponse:
    status, headers = status_of(error)
    return JSONResponse(responses.error_body(str(error)), status, headers)


@api.exception_handler(HTTPException)
async def _no_such_route(_: Request, error: HTTPException) -> JSONResponse:
    # FastAPI's own 404 and 405, in the protocol's words.
    return JSONResponse(responses.error_body(str(error.detail)), error.status_code, error.headers)


@serve.ingress(api)
class Ingress:
    """Answers queries over HTTP and by handle, from one driver on this replica's event loop."""

    async def __init__(  # type: ignore[misc]
        self,
        settings: Settings,
        manifest: Manifest,
        deployed: DeploymentHandle,
        backup: DeploymentHandle | None,
        adviser: DeploymentHandle | None,
        *parities: DeploymentHandle,
    ) -> None:
        self._settings = settings
        self._manifest = manifest
        self._name = settings.name or manifest.name
        plan = settings.plan
        coded = plan.kind == "coded"
        code = None
        if coded:
            parity = settings.parity[0].artifact
            code = plan_code(plan.encoder, plan.decoder, plan.k, plan.r, manifest.input, parity)
        observer = ServeObserver(self._name, plan.k if coded else 1)
        me = serve.get_replica_context().replica_id.unique_id
        self._recorder = recorder_of(settings.record, manifest, me, observer.recorded)
        shadows = None
        if settings.shadow is not None:
            shadows = Shadows(ShadowDraw(settings.shadow.shadow(), random.Random()), observer.shadowed)
        self._driver = assemble(
            settings, manifest, code, deployed, parities, backup, observer, monotonic, self._recorder, shadows
        )
        self._stats = IngressStats(self._driver, observer, monotonic)
        self._limits = protocol.Limits(**settings.limits.model_dump())
        self._observer = observer
        self._observations = Observations(
            self._driver, observer.outcomes, monotonic, me, lambda: (observer.agreed, observer.compared_total)
        )
        observer.plan_in_force(self._driver.machine.plan.name)
        self._following: Following | None = None
        if adviser is not None and settings.auto is not None:
            self._following = Following(adviser.exchange.remote, self._report, self._use)
            self._follow = asyncio.get_running_loop().create_task(
                self._following.forever(settings.auto.exchange_s)
            )
        self._reporting = asyncio.get_running_loop().create_task(
            repeat(1.0, self._stats.report, self._observations.tick)
        )

    async def __del__(self) -> None:
        """Serve's way to say that the replica stops; it may come before `__init__` is through."""
        if (recorder := getattr(self, "_recorder", None)) is not None:
            await recorder.close()

    # -- by handle -----------------------------------------------------------------------------

    async def infer(
        self, query: ArrayLike | bytes, deadline_ms: float | None = None, redundancy: bool = True
    ) -> Prediction:
        """Answer one query `[*input]` of the model's dtype, or one JPEG/PNG file for an image model.

        deadline_ms: milliseconds from now; None = the server's. redundancy=False opts out.
        Raises InvalidInput, Overloaded, DeadlineExceeded or ModelFailed.
        """
        queries = check_query(query, self._manifest.input, self._limits)
        return (await self._answer(queries, deadline_ms, redundancy))[0]

    async def infer_batch(
        self, queries: ArrayLike, deadline_ms: float | None = None, redundancy: bool = True
    ) -> list[Prediction]:
        """Answer n queries `[n, *input]`; each may be grouped, reconstructed, defaulted on its own."""
        checked = check_queries(queries, self._manifest.input, self._limits)
        return await self._answer(checked, deadline_ms, redundancy)

    async def _answer(
        self, queries: NDArray[np.generic], deadline_ms: float | None, redundancy: bool
    ) -> list[Prediction]:
        if deadline_ms is None:
            deadline_ms = self._settings.deadline_ms
        deadline_s = check_deadline(deadline_ms)
        protected = check_redundancy(redundancy)
        self._driver.admit(len(queries), deadline_s)
        futures = [self._driver.submit(q, deadline_s, protected=protected) for q in queries]
        try:
            return list(await asyncio.gather(*futures))
        finally:
            # One failed, or the client has gone: nobody waits for the rest.
            for future in futures:
                future.cancel()

    def stats(self) -> dict[str, Any]:
        """Counters and queue state of this ingress replica."""
        return self._stats.page()

    async def observations(self) -> dict[str, Any]:
        """What this ingress replica has seen in the last minute; see `Observations.page`.

        `auto`: what the adviser said last, null without one; see `Following.page`.
        """
        auto = None if self._following is None else self._following.page()
        return self._observations.page() | {"auto": auto}

    def _report(self) -> Report:
        page = self._observations.page()
        return Report(page["ingress"], page, self._driver.machine.plan)

    def _use(self, plan: RedundancyPlan, reason: str) -> None:
        if self._driver.use(plan):
            self._observer.plan_in_force(self._driver.machine.plan.name, reason)

    async def use_plan(self, plan: RedundancyPlan) -> None:
        """Let this ingress replica go by another plan from the next group on; see `Driver.use`.

        Raises InvalidInput for a plan that the server has no pools or no code for, and where an adviser says
        what the plan is.
        """
        if self._following is not None:
            raise InvalidInput("plan", "none, with settings.auto the adviser chooses it", plan.name)
        self._use(plan, "asked")

    # -- as an engine of a fleet ---------------------------------------------------------------

    async def forward(
        self, model: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        """Answer the inference request that came to a front end: status, headers and body for its client."""
        try:
            self._check_model(model, None)
            content, out = await self._respond(body, Headers(headers))
        except ParmError as error:
            status, more = status_of(error)
            answer = JSONResponse(responses.error_body(str(error)), status, more)
            return status, dict(answer.headers), bytes(answer.body)
        return 200, out, content

    async def stream(self, model: str, body: bytes, headers: dict[str, str]) -> AsyncIterator[bytes]:
        """Refuse: a model that answers at once has nothing to stream."""
        self._check_model(model, None)
        raise InvalidInput("generate_stream", "infer, this model answers at once", model)
        yield b""

    async def signals(self) -> EngineSignals:
        """What the control plane asks an engine."""
        queue = self._driver.pools[DEPLOYED].queue
        whole = self._settings.model.replicas
        slots = max(1, queue.replicas * queue.slots)
        return EngineSignals(
            ready_share=min(1.0, queue.replicas / whole) if self._driver.ready else 0.0,
            utilization=min(1.0, queue.busy / slots),
            queued=queue.queued,
        )

    # -- by HTTP -------------------------------------------------------------------------------

    @api.post("/v2/models/{model}/infer", openapi_extra=schemas.INFER, responses=schemas.RESPONSES)
    @api.post(
        "/v2/models/{model}/versions/{version}/infer",
        openapi_extra=schemas.INFER,
        responses=schemas.RESPONSES,
    )
    async def http_infer(self, request: Request, model: str, version: str | None = None) -> Response:
        """Answer the queries of an Open Inference Protocol request, JSON or binary."""
        self._check_model(model, version)
        body = await read_body(request, self._limits.max_body_bytes)
        content, headers = await self._respond(body, request.headers)
        return Response(content, headers=headers)

    async def _respond(self, body: bytes, headers: Mapping[str, str]) -> tuple[bytes, dict[str, str]]:
        """Return the body and the headers of the answer to an inference request's."""
        parse = (body, headers, self._manifest, self._limits)
        if protocol.may_hold_files(body):
            # Decoding a photograph takes long enough to make every other query late.
            parsed = await asyncio.to_thread(protocol.parse_infer_request, *parse)
        else:
            parsed = protocol.parse_infer_request(*parse)
        predictions = await self._answer(parsed.queries, parsed.deadline_ms, parsed.redundancy)
        return responses.build_infer_response(parsed, self._name, self._manifest, predictions)

    @api.get("/v2", response_model=schemas.ServerMetadata)
    async def http_server(self) -> dict[str, Any]:
        """Server metadata."""
        return responses.server_metadata("parm_ray", parm_ray.__version__)

    @api.get("/v2/health/live")
    async def http_live(self) -> dict[str, bool]:
        """Whether this process answers."""
        return {"live": True}

    @api.get("/v2/health/ready")
    async def http_ready(self, response: Response) -> dict[str, bool]:
        """Whether data and parity replicas run; 503 while they do not."""
        ready = self._driver.ready
        response.status_code = 200 if ready else 503
        return {"ready": ready}

    @api.get("/v2/models/{model}", response_model=schemas.ModelMetadata)
    @api.get("/v2/models/{model}/versions/{version}", response_model=schemas.ModelMetadata)
    async def http_model(self, model: str, version: str | None = None) -> dict[str, Any]:
        """Model metadata: names, datatypes and shapes (-1 = any number of queries)."""
        self._check_model(model, version)
        return responses.model_metadata(self._name, self._manifest)

    @api.get("/v2/models/{model}/ready")
    @api.get("/v2/models/{model}/versions/{version}/ready")
    async def http_model_ready(
        self, model: str, response: Response, version: str | None = None
    ) -> dict[str, str | bool]:
        """Whether the model can answer; 503 while it cannot."""
        self._check_model(model, version)
        response.status_code = 200 if self._driver.ready else 503
        return {"name": self._name, "ready": self._driver.ready}

    @api.get("/v2/models/{model}/stats")
    async def http_stats(self, model: str) -> dict[str, Any]:
        """Counters and queue state of the ingress replica that answers."""
        self._check_model(model, None)
        return self._stats.page()

    @api.get("/v2/models/{model}/observations")
    async def http_observations(self, model: str) -> Response:
        """What calls took, rates and shares in the last minute, of the ingress replica that answers."""
        self._check_model(model, None)
        # Written at once: FastAPI would look at each of thousands of numbers first, on this loop.
        return JSONResponse(await self.observations())

    @api.get("/v2/models/{model}/groups")
    async def http_groups(self, model: str) -> Sequence[dict[str, Any]]:
        """Timelines of recent groups, when `ingress.trace_groups` is set."""
        self._check_model(model, None)
        return [] if self._driver.trace is None else self._driver.trace.timelines()

    def _check_model(self, model: str, version: str | None) -> None:
        if model != self._name:
            raise UnknownModel(f"model: expected {self._name!r}, got {model!r}")
        if version is not None and version != self._manifest.version:
            raise UnknownModel(f"version: expected {self._manifest.version!r}, got {version!r}")
