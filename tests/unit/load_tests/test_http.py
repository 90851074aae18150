from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from aiohttp import web
from contract_server import MODEL, SHAPE, ContractServer

from load_tests import http_json, oip
from load_tests.client import SendFailed
from load_tests.http_target import HttpTarget
from load_tests.phase import LabelledImages, run_phase
from load_tests.records import read_csv, write_csv
from load_tests.server_stats import ServedModel
from parm_ray.core import Outcome


def images(n: int) -> LabelledImages:
    """Image i starts with pixel i, so the contract server answers class i mod 10."""
    pixels = np.zeros((n, *SHAPE), np.uint8)
    pixels[:, 0, 0, 0] = np.arange(n)
    return LabelledImages(pixels, np.arange(n) % 10)


async def find(server: ContractServer) -> ServedModel:
    return await asyncio.to_thread(ServedModel.find, server.base_url, MODEL)


async def test_metadata_says_what_to_send(server: ContractServer) -> None:
    model = await find(server)
    assert (model.input.name, model.input.shape, model.input.dtype) == ("image", SHAPE, np.dtype("u1"))
    assert (model.output.name, model.output.shape) == ("logits", (10,))


async def test_a_phase_records_every_query_and_reads_the_counters(
    server: ContractServer, tmp_path: Path
) -> None:
    model = await find(server)
    ended: list[object] = []
    phase = await run_phase(model, [0.0] * 24, images(24), timeout_s=10, warm_up=8, on_done=ended.append)
    assert len(phase.records) == len(ended) == 24
    assert all(r.status == 200 and r.correct for r in phase.records)
    assert sum(r.outcome is Outcome.RECONSTRUCTED for r in phase.records) == 6
    assert {r.group for r in phase.records} == set(range(4, 16))
    assert phase.utilisation() == pytest.approx(0.25)
    assert np.isnan(phase.utilisation("parity0"))
    assert all(0 <= r.planned <= r.sent <= r.done for r in phase.records)
    again = read_csv(write_csv(tmp_path / "deep" / "records.csv", phase.records))
    assert [(r.query, r.outcome, r.group, r.slot, r.predicted, r.label) for r in again] == [
        (r.query, r.outcome, r.group, r.slot, r.predicted, r.label) for r in phase.records
    ]
    assert again[3].latency_s == pytest.approx(phase.records[3].latency_s, abs=2e-6)


async def test_status_errors_are_failures_with_the_servers_words(server: ContractServer) -> None:
    model = await find(server)

    async def overloaded(request: web.Request) -> web.Response:
        if server.requests > 4:
            return web.json_response({"error": "queue full"}, status=503)
        raise web.HTTPOk

    server.override = overloaded
    phase = await run_phase(model, [0.0] * 3, images(3), timeout_s=10, warm_up=4)
    assert {r.error for r in phase.records} == {"HTTP 503: queue full"}


async def test_no_answer_while_warming_up_ends_the_run(server: ContractServer) -> None:
    model = await find(server)

    async def broken(request: web.Request) -> web.Response:
        return web.json_response({"error": "no replicas"}, status=503)

    server.override = broken
    with pytest.raises(SendFailed, match="no replicas"):
        await run_phase(model, [0.0], images(1), timeout_s=10, warm_up=4)


async def _reason(target: HttpTarget) -> str:
    async with target:
        with pytest.raises(SendFailed) as failure:
            await target(0)
    return str(failure.value)


async def test_reasons_of_missing_responses(server: ContractServer) -> None:
    async def hang_up(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def hang(request: web.Request) -> web.StreamResponse:
        return await asyncio.get_running_loop().create_future()

    def target(url: str, timeout_s: float) -> HttpTarget:
        return HttpTarget(url, MODEL, {}, lambda i: b"x", timeout_s)

    server.override = hang_up
    assert await _reason(target(server.base_url, 10)) == "server closed the connection"
    server.override = hang
    assert await _reason(target(server.base_url, 0.05)) == "timeout after 0.05 s"
    assert (await _reason(target("http://127.0.0.1:1", 10))).startswith("cannot connect")


async def test_ready_is_about_status_200(server: ContractServer) -> None:
    assert await asyncio.to_thread(http_json.ready, f"{server.base_url}/v2/models/{MODEL}")
    assert not await asyncio.to_thread(http_json.ready, f"{server.base_url}/v2/health/ready")
    assert not await asyncio.to_thread(http_json.ready, "http://127.0.0.1:1/")


def test_images_are_shuffled_in_whole_passes(tmp_path: Path) -> None:
    path = tmp_path / "queries.npz"
    np.savez(path, images=images(10).images, labels=images(10).labels)
    drawn = LabelledImages.load(path).shuffled(25, np.random.default_rng(0))
    assert len(drawn.images) == 25
    assert sorted(drawn.labels[:10]) == list(range(10))
    assert np.array_equal(drawn.images[:, 0, 0, 0] % 10, drawn.labels)
    assert drawn.labels[:10].tolist() != drawn.labels[10:20].tolist()


def test_a_body_of_the_wrong_shape_is_refused() -> None:
    template = oip.RequestTemplate("image", SHAPE, np.dtype("u1"), "logits")
    with pytest.raises(ValueError, match="shape"):
        template.body(np.zeros((2, 2, 1), np.uint8))
