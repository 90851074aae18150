from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import numpy as np
from aiohttp import web

MODEL = "toy"
SHAPE = (4, 4, 1)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def infer_response(logits: np.ndarray, **headers: str) -> web.Response:
    """What the server answers: JSON, then the raw tensor."""
    raw = logits.astype("<f4").tobytes()
    document = json.dumps(
        {
            "model_name": MODEL,
            "outputs": [
                {
                    "name": "logits",
                    "shape": list(logits.shape),
                    "datatype": "FP32",
                    "parameters": {"binary_data_size": len(raw)},
                }
            ],
        }
    ).encode()
    return web.Response(
        body=document + raw,
        headers={"Inference-Header-Content-Length": str(len(document)), **headers},
    )


class ContractServer:
    """A server that speaks the contract: its model answers class (first pixel mod 10)."""

    def __init__(self) -> None:
        self.base_url = ""
        self.requests = 0
        self.override: Handler | None = None

    async def infer(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        if self.override is not None:
            return await self.override(request)
        body = await request.read()
        end = int(request.headers["Inference-Header-Content-Length"])
        (tensor,) = json.loads(body[:end])["inputs"]
        pixels = np.frombuffer(body[end:], np.uint8).reshape(tensor["shape"])
        assert len(body) - end == tensor["parameters"]["binary_data_size"]
        logits = np.eye(10)[[int(pixels.flat[0]) % 10]]
        number = self.requests - 1
        return infer_response(
            logits,
            **{
                "x-parm-outcome": "reconstructed" if number % 4 == 3 else "original",
                "x-parm-group": str(number // 2),
                "x-parm-slot": str(number % 2),
                "x-parm-lateness-ms": "1.5" if number % 4 == 3 else "0.0",
            },
        )

    async def metadata(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "name": MODEL,
                "inputs": [{"name": "image", "datatype": "UINT8", "shape": [-1, *SHAPE]}],
                "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, 10]}],
            }
        )

    async def stats(self, request: web.Request) -> web.Response:
        pool = {"replicas": 2, "slots": 1, "busy_s": 0.5 * self.requests, "calls": self.requests}
        return web.json_response(
            {
                "pools": {"deployed": pool},
                "time_s": 1.0 * self.requests,
                "agreement": {"agreed": 1, "total": 2},
            }
        )

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post(f"/v2/models/{MODEL}/infer", self.infer)
        app.router.add_get(f"/v2/models/{MODEL}", self.metadata)
        app.router.add_get(f"/v2/models/{MODEL}/stats", self.stats)
        return app
