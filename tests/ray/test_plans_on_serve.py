"""Every plan as a real Serve application: answers come from where the plan says, and are the model's.

The driver is this file run as a program (see test_handle_load.py). Calls are emulated: 30 ms, half of
them ten times as long, so that each plan has work to do within a few dozen queries.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.driver_process import run_driver

QUERIES = 30
EMULATE = {"service_ms": 30, "slowness": {"share": 0.5, "factor": 10}}
HEDGE = {"rule": "fixed", "delay_ms": 60, "budget_ratio": 1.0}
CODED = {"kind": "coded", "encoder": "concat", "decoder": "slot", "k": 2}


def settings_of(plan: str, artifacts: Path) -> dict[str, Any]:
    def pool(name: str, **more: Any) -> dict[str, Any]:
        return {"artifact": str(artifacts / "digits" / name), "num_cpus": 0.01, "emulate": EMULATE, **more}

    parity = {"artifact": str(artifacts / "digits" / "concat_slot_k2"), "emulate": EMULATE}
    plans: dict[str, dict[str, Any]] = {
        "replicated": {"plan": {"kind": "replicated", "copies": 2}},
        "hedged": {"plan": {"kind": "hedged", "hedge": HEDGE}},
        # The deployed model itself as its backup: what comes back must be the same answers.
        "backup": {"plan": {"kind": "backup", "hold_off_ms": 60}, "backup": pool("deployed")},
        "shared": {"plan": {**CODED, "pool": "shared", "idle_reserve": 0.0}, "parity": [parity]},
    }
    return {"model": pool("deployed", replicas=3), "ingress": {"num_cpus": 0.01}, **plans[plan]}


@pytest.fixture(scope="module")
def results(server, artifacts, tmp_path_factory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("plans")
    np.savez(folder / "queries.npz", images=server.images[:QUERIES])
    plans = ("replicated", "hedged", "backup", "shared")
    (folder / "plans.json").write_text(json.dumps({plan: settings_of(plan, artifacts) for plan in plans}))
    run_driver(server, __file__, folder, timeout=500)
    return json.loads((folder / "results.json").read_text())


@pytest.mark.parametrize(
    ("plan", "other"),
    [("replicated", "copy"), ("hedged", "copy"), ("backup", "backup"), ("shared", "reconstructed")],
)
def test_answers_come_from_where_the_plan_says(results, artifacts, server, plan, other):
    from parm_ray.models.loading import load_predictor

    found = results[plan]
    counts = {name: found["outcomes"].count(name) for name in set(found["outcomes"])}
    assert counts.keys() <= {"original", other}, counts
    assert counts.get(other, 0) >= 2, counts
    _, deployed = load_predictor(artifacts / "digits" / "deployed", "cpu")
    expected = deployed.predict(server.images[:QUERIES])
    got = np.array(found["outputs"], np.float32)
    exact = [i for i, outcome in enumerate(found["outcomes"]) if outcome != "reconstructed"]
    np.testing.assert_allclose(got[exact], expected[exact], rtol=1e-4, atol=1e-4)
    agreed = (got.argmax(1) == expected.argmax(1)).mean()
    assert agreed >= 0.8, agreed


@pytest.mark.parametrize("plan", ["replicated", "hedged", "backup", "shared"])
def test_nothing_is_left_open_and_work_is_counted_by_what_it_was_for(results, plan):
    stats = results[plan]["stats"]
    for name in ("queries_open", "futures_open", "groups_open", "calls_outstanding"):
        assert stats[name] == 0, (name, stats[name])
    calls = {k: v for pool in stats["pools"].values() for k, v in pool["calls_by_lane"].items()}
    if plan == "shared":
        assert list(stats["pools"]) == ["deployed"]
        assert calls["parity0"] >= 1
    if plan == "backup":
        assert calls["backup"] >= 1
    if plan in ("replicated", "hedged"):
        assert calls["deployed"] > QUERIES


def _drive(folder: Path) -> None:
    import asyncio
    import time

    import ray
    from ray import serve

    from parm_ray.config import Settings
    from parm_ray.serve.app import build

    ray.init(sys.argv[1], logging_level="ERROR")
    images = np.load(folder / "queries.npz")["images"]
    results = {}

    async def load(handle) -> list[Any]:
        async def one(i: int) -> Any:
            await asyncio.sleep(0.12 * i)
            return await handle.infer.remote(images[i])

        return await asyncio.gather(*(one(i) for i in range(len(images))))

    for plan, document in json.loads((folder / "plans.json").read_text()).items():
        app = build(Settings.model_validate(document))
        handle = serve.run(app, name=f"plan_{plan}", route_prefix=f"/plan_{plan}")
        answers = asyncio.run(load(handle))
        give_up = time.monotonic() + 20
        while (stats := handle.stats.remote().result())["groups_open"] and time.monotonic() < give_up:
            time.sleep(0.1)
        results[plan] = {
            "outcomes": [answer.outcome.value for answer in answers],
            "outputs": [answer.output.tolist() for answer in answers],
            "stats": stats,
        }
        serve.delete(f"plan_{plan}")
    (folder / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    _drive(Path(sys.argv[2]))
