"""The applications of the path benchmark: the same replicas behind what Serve gives by default.

A plain ingress that calls a handle: default router, default transport, no queue of its own. Requests
are parsed and answered by the same protocol code, so that only the path between them differs.
"""

import asyncio
import contextvars
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from ray import serve
from ray.serve import Application
from ray.serve.handle import DeploymentHandle

from parm_ray.config import PoolSettings, Settings
from parm_ray.core import NullObserver, Outcome, monotonic
from parm_ray.models.loading import build_code
from parm_ray.models.manifest import Manifest, load_manifest
from parm_ray.serve import protocol, responses
from parm_ray.serve.app import pools
from parm_ray.serve.assembly import assemble
from parm_ray.serve.deployments import DeployedModel
from parm_ray.serve.prediction import Prediction
from parm_ray.workload import poisson

# An answer later than this is no use to a caller; what is open this long after the last planned
# query is given up.
IN_TIME_S, DRAIN_S = 1.0, 3.0

api = FastAPI()


@serve.ingress(api)
class PlainIngress:
    """`await handle.predict.remote(batch)`, nothing else."""

    def __init__(self, manifest: Manifest, model: DeploymentHandle) -> None:
        self._manifest = manifest
        self._model = model

    @api.post("/v2/models/{model}/infer")
    async def infer(self, request: Request, model: str) -> Response:
        """Answer one request."""
        parsed = protocol.parse_infer_request(
            await request.body(), request.headers, self._manifest, protocol.Limits()
        )
        outputs: np.ndarray = await self._model.predict.remote(parsed.queries)
        predictions = [Prediction(row, Outcome.ORIGINAL, 0, 0) for row in outputs]
        content, headers = responses.build_infer_response(parsed, model, self._manifest, predictions)
        return Response(content, headers=headers)

    @api.get("/v2/models/{model}")
    async def metadata(self, model: str) -> dict[str, Any]:
        """Model metadata."""
        return responses.model_metadata(model, self._manifest)

    @api.get("/v2/models/{model}/stats")
    async def stats(self, model: str) -> dict[str, Any]:
        """Nothing is counted here."""
        return {}


class Offered(ABC):
    """Open-loop load from inside the ingress process: no proxy, no client, only the path to replicas."""

    def __init__(self, manifest: Manifest) -> None:
        rng = np.random.default_rng(0)
        shape = (64, *manifest.input.shape)
        self._queries = rng.integers(0, 256, shape).astype(manifest.input.numpy_dtype)

    @abstractmethod
    async def one(self, query: np.ndarray) -> None:
        """Answer one query `[*input]`."""

    async def __call__(self, request: Request) -> dict[str, float]:
        """Offer `rate` queries/s for `seconds`; latencies (ms) run from the planned times."""
        options = request.query_params
        rate, seconds = float(options["rate"]), float(options["seconds"])
        planned = poisson(rate, np.random.default_rng(int(options["seed"])), duration=seconds)
        loop = asyncio.get_running_loop()
        start, latencies, tasks = loop.time() + 0.1, [], []

        async def shoot(at: float, query: np.ndarray) -> None:
            await self.one(query)
            latencies.append(loop.time() - start - at)

        for i, at in enumerate(planned):
            await asyncio.sleep(max(0.0, start + at - loop.time()))
            shot = shoot(at, self._queries[i % 64])
            # Each its own context, as each HTTP request has one.
            tasks.append(contextvars.Context().run(loop.create_task, shot))
        _, late = await asyncio.wait(tasks, timeout=DRAIN_S)
        for task in late:
            task.cancel()
        in_time = sum(1 for latency in latencies if latency <= IN_TIME_S)
        return {
            "p50_ms": float(np.median(latencies)) * 1e3 if latencies else float("inf"),
            "per_s": in_time / seconds,
            "offered_per_s": len(planned) / seconds,
            "unanswered": len(late),
        }


class CodedOffered(Offered):
    """The real driver, pools and placing router."""

    async def __init__(  # type: ignore[misc]
        self, settings: Settings, manifest: Manifest, deployed: DeploymentHandle, *parities: DeploymentHandle
    ) -> None:
        super().__init__(manifest)
        plan = settings.plan
        code = build_code(plan.encoder, plan.decoder, plan.k, plan.r, manifest.input)
        self._driver = assemble(settings, manifest, code, deployed, parities, None, NullObserver(), monotonic)

    async def one(self, query: np.ndarray) -> None:
        """Through the group machine."""
        await self._driver.submit(query, 60.0)


class PlainOffered(Offered):
    """A handle called the default way."""

    def __init__(self, manifest: Manifest, model: DeploymentHandle) -> None:
        super().__init__(manifest)
        self._model = model

    async def one(self, query: np.ndarray) -> None:
        """One handle call."""
        await self._model.predict.remote(query[None])


def build_plain(args: dict[str, Any]) -> Application:
    """`args`: `pool` (settings of the replicas), `slots` per replica, `inside` for load from within."""
    pool = PoolSettings.model_validate(args["pool"])
    model = serve.deployment(
        num_replicas=pool.replicas,
        max_ongoing_requests=args["slots"],
        ray_actor_options={"num_cpus": pool.num_cpus},
    )(DeployedModel).bind(pool, "deployed")
    ingress = PlainOffered if args["inside"] else PlainIngress
    return serve.deployment(max_ongoing_requests=1000, ray_actor_options={"num_cpus": 0.1})(ingress).bind(
        load_manifest(pool.artifact), model
    )


def build_coded_inside(settings: Settings) -> Application:
    """The coded application with load from within instead of an HTTP ingress."""
    manifest, deployed, parities, _ = pools(settings)
    return serve.deployment(ray_actor_options={"num_cpus": 0.1})(CodedOffered).bind(
        settings, manifest, deployed, *parities
    )
