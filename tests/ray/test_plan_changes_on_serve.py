"""A real Serve application whose plan changes under load: no query is lost, and observations follow.

The driver is this file run as a program (see test_handle_load.py). Calls are emulated: 30 ms, a third of
them ten times as long.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.driver_process import run_driver

QUERIES = 24
EMULATE = {"service_ms": 30, "slowness": {"share": 0.33, "factor": 10}}
PHASES = ("coded", "hedged", "none", "replicated", "coded again")


@pytest.fixture(scope="module")
def results(server, artifacts, tmp_path_factory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("changes")
    np.savez(folder / "queries.npz", images=server.images[: QUERIES * len(PHASES)])

    def pool(name: str, replicas: int) -> dict[str, Any]:
        path = str(artifacts / "digits" / name)
        return {"artifact": path, "replicas": replicas, "num_cpus": 0.01, "emulate": EMULATE}

    settings = {
        "model": pool("deployed", 4),
        "parity": [pool("concat_slot_k2", 2)],
        "plan": {"kind": "coded", "k": 2},
        "shadow": {"share": 0.05, "budget_floor_per_s": 100},
        "ingress": {"num_cpus": 0.01},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    run_driver(server, __file__, folder)
    return json.loads((folder / "results.json").read_text())


def test_every_phase_s_answers_come_from_where_its_plan_says(results):
    legal = {
        "coded": {"original", "reconstructed"},
        "hedged": {"original", "copy"},
        "none": {"original"},
        "replicated": {"original", "copy"},
        "coded again": {"original", "reconstructed"},
    }
    for phase in PHASES:
        found = results["outcomes"][phase]
        assert len(found) == QUERIES
        assert set(found) <= legal[phase], (phase, found)
        assert phase == "none" or set(found) == legal[phase], (phase, found)


def test_all_answers_are_the_right_queries_across_the_changes(results, artifacts, server):
    from parm_ray.models.loading import load_predictor

    _, deployed = load_predictor(artifacts / "digits" / "deployed", "cpu")
    expected = deployed.predict(server.images[: QUERIES * len(PHASES)])
    got = np.array(results["outputs"], np.float32)
    outcomes = [outcome for phase in PHASES for outcome in results["outcomes"][phase]]
    exact = [i for i, outcome in enumerate(outcomes) if outcome != "reconstructed"]
    np.testing.assert_allclose(got[exact], expected[exact], rtol=1e-4, atol=1e-4)
    assert (got.argmax(1) == expected.argmax(1)).mean() >= 0.8


def test_observations_tell_the_plan_in_force_and_what_calls_took(results):
    assert [page["plan"]["name"] for page in results["pages"]] == [
        "coded k=2", "hedged", "none", "2 copies", "coded k=2"
    ]  # fmt: skip
    last = results["pages"][-1]
    calls = last["calls"]["deployed"]
    assert len(calls["seconds"]) >= QUERIES * len(PHASES) + QUERIES // 2
    assert min(calls["seconds"]) >= 0.03
    slow = np.array(calls["seconds"]) >= 0.3
    assert 0.2 < slow.mean() < 0.5
    assert len(last["calls"]["parity0"]["seconds"]) >= QUERIES // 2
    assert last["pools"]["deployed"]["replicas"] == 4
    assert 3 < last["rates"]["queries"] < 20


def test_shadows_ran_and_their_pairs_are_there(results):
    last = results["pages"][-1]
    assert last["shadow"]["paired"] == len(last["pairs"]) >= 1
    assert all(min(pair) >= 0.03 for pair in last["pairs"])
    assert len(last["calls"]["shadow"]["seconds"]) == len(last["pairs"])


def test_nothing_is_left_open_and_a_plan_without_pools_is_refused(results):
    for name in ("queries_open", "futures_open", "groups_open", "calls_outstanding"):
        assert results["stats"][name] == 0, name
    assert "plan.k: expected 2" in results["refused"]


def _drive(folder: Path) -> None:
    import asyncio
    import time

    import ray
    from ray import serve

    from parm_ray.config import Settings
    from parm_ray.redundancy import Hedge, RedundancyPlan
    from parm_ray.serve.app import build

    ray.init(sys.argv[1], logging_level="ERROR")
    images = np.load(folder / "queries.npz")["images"]
    coded = RedundancyPlan("coded", k=2, r=1)
    plans = [
        coded,
        RedundancyPlan("hedged", hedge=Hedge("fixed", 0.06, budget_ratio=1.0)),
        RedundancyPlan(),
        RedundancyPlan("replicated", copies=2),
        coded,
    ]
    settings = Settings.model_validate(json.loads((folder / "settings.json").read_text()))
    handle = serve.run(build(settings), name="changes", route_prefix="/changes")
    pages = []

    async def load() -> list[Any]:
        """One stream of queries; the plan changes in the middle of it, with queries under way."""
        began, running = time.monotonic(), []
        for number, plan in enumerate(plans):
            await handle.use_plan.remote(plan)
            for i in range(number * QUERIES, (number + 1) * QUERIES):
                await asyncio.sleep(began + 0.1 * i - time.monotonic())
                running.append(asyncio.ensure_future(_answer(handle, images[i])))
            pages.append(await handle.observations.remote())
        return await asyncio.gather(*running)

    answers = asyncio.run(load())
    give_up = time.monotonic() + 20
    while (stats := handle.stats.remote().result())["calls_outstanding"] and time.monotonic() < give_up:
        time.sleep(0.1)
    pages[-1] = handle.observations.remote().result()
    try:
        handle.use_plan.remote(RedundancyPlan("coded", k=5, r=1)).result()
        refused = ""
    except Exception as error:
        refused = str(error)
    outcomes = [answer.outcome.value for answer in answers]
    results = {
        "outcomes": {p: outcomes[n * QUERIES : (n + 1) * QUERIES] for n, p in enumerate(PHASES)},
        "outputs": [answer.output.tolist() for answer in answers],
        "pages": pages,
        "stats": stats,
        "refused": refused,
    }
    serve.delete("changes")
    (folder / "results.json").write_text(json.dumps(results))


async def _answer(handle: Any, image: np.ndarray) -> Any:
    return await handle.infer.remote(image)


if __name__ == "__main__":
    _drive(Path(sys.argv[2]))
