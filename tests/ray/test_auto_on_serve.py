"""A real Serve application that finds out by itself that a tenth of its calls are slow, and hedges them.

The driver is this file run as a program (see test_handle_load.py). Calls are emulated: 20 ms, a tenth of
them fifteen times as long. The application begins without redundancy.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
EMULATE = {"service_ms": 20, "slowness": {"share": 0.1, "factor": 15}}
RATE = 15.0


@pytest.fixture(scope="module")
def results(server, artifacts, tmp_path_factory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("auto")
    np.savez(folder / "queries.npz", images=server.images[:100])
    artifact = str(artifacts / "digits" / "deployed")
    settings = {
        "model": {"artifact": artifact, "replicas": 4, "num_cpus": 0.01, "emulate": EMULATE},
        "ingress": {"num_cpus": 0.01},
        "shadow": {"share": 0.05, "budget_floor_per_s": 1},
        "auto": {
            "objective": "p95",
            "interval_s": 5,
            "repeats": 1,
            "dwell_s": 0,
            "kinds": ["hedged"],
            "num_cpus": 0.01,
        },
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    address = (server.cluster.temp_dir / "ray_current_cluster").read_text()
    done = subprocess.run(
        [sys.executable, __file__, address, str(folder)],
        env=server.cluster.env | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "results.json").read_text())


def test_it_began_without_redundancy_and_waited_for_enough_calls(results):
    assert results["first"]["plan"]["name"] == "none"
    last = results["first"]["auto"]["last"]
    # On a machine that is slow enough there are enough calls before the first look at them.
    assert "expected at least 200 service times" in last or not last or "p95 at" in last


def test_it_changed_to_hedges_and_says_why(results):
    changed = results["changed"]
    assert changed["plan"]["name"].startswith("hedged")
    assert changed["plan"]["deadline_s"] == 5.0, "the server's deadline stays"
    assert changed["auto"]["reason"] == "better"
    assert "p95 at" in changed["auto"]["why"]
    assert "of the plan in force" in changed["auto"]["why"]


def test_the_tail_is_gone_after_the_change_and_no_query_was_lost(results):
    assert not results["errors"]
    before, after = (np.quantile(results[which], 0.95) for which in ("before_s", "after_s"))
    assert before > 0.25
    assert after < 0.6 * before
    assert set(results["outcomes"]) == {"original", "copy"}


def test_pairs_were_measured_on_the_way(results):
    assert results["changed"]["shadow"]["paired"] >= 1
    assert len(results["changed"]["pairs"]) >= 1


def test_the_plan_survives_its_adviser(results):
    # One sort of hedges may have given way to another meanwhile; and whether the ingress notices that there
    # is no adviser depends on how soon Serve has started the next.
    assert results["killed"]["plan"]["name"].startswith("hedged")
    assert results["replaced"]["plan"]["name"].startswith("hedged")
    assert results["replaced"]["auto"]["failing"] == ""


def test_where_an_adviser_chooses_nobody_else_does(results):
    assert "the adviser chooses" in results["refused"]


def _drive(folder: Path) -> None:
    import asyncio

    import ray
    from ray import serve

    from parm_ray.config import Settings
    from parm_ray.redundancy import RedundancyPlan
    from parm_ray.serve.app import build

    ray.init(sys.argv[1], logging_level="ERROR")
    images = np.load(folder / "queries.npz")["images"]
    settings = Settings.model_validate(json.loads((folder / "settings.json").read_text()))
    handle = serve.run(build(settings), name="auto", route_prefix="/auto")
    found: dict[str, Any] = {"errors": []}

    async def load(until, most_s: float, latencies: list[float], outcomes: list[str]) -> dict[str, Any]:
        """Send queries at RATE until the observations fulfil `until`; return them."""
        loop, running, page = asyncio.get_running_loop(), [], {}
        began = loop.time()
        for number in range(int(most_s * RATE)):
            await asyncio.sleep(began + number / RATE - loop.time())
            running.append(asyncio.ensure_future(_timed(handle, images[number % 100], found["errors"])))
            if number % int(RATE) == 0:
                page = await handle.observations.remote()
                if until(page, number):
                    break
        for seconds, outcome in await asyncio.gather(*running):
            latencies.append(seconds)
            outcomes.append(outcome)
        return page

    async def whole() -> None:
        before, after, outcomes = [], [], []
        found["first"] = await load(lambda page, n: page["auto"]["last"], 30, before, outcomes)
        found["changed"] = await load(lambda page, n: page["plan"]["kind"] != "none", 150, before, outcomes)
        await load(lambda page, n: False, 15, after, outcomes)
        actors = ray.util.list_named_actors(all_namespaces=True)
        (name,) = [one["name"] for one in actors if "auto#Adviser" in one["name"]]
        ray.kill(ray.get_actor(name, namespace="serve"))
        found["killed"] = await load(lambda page, n: page["auto"]["failing"], 30, after, outcomes)
        found["replaced"] = await load(lambda page, n: not page["auto"]["failing"], 90, after, outcomes)
        found.update(before_s=before, after_s=after, outcomes=outcomes)
        try:
            await handle.use_plan.remote(RedundancyPlan())
        except Exception as error:
            found["refused"] = str(error)

    asyncio.run(whole())
    serve.delete("auto")
    (folder / "results.json").write_text(json.dumps(found))


async def _timed(handle: Any, image: np.ndarray, errors: list[str]) -> tuple[float, str]:
    import time

    began = time.monotonic()
    try:
        answer = await handle.infer.remote(image)
    except Exception as error:
        errors.append(repr(error))
        return 99.0, "failed"
    return time.monotonic() - began, answer.outcome.value


if __name__ == "__main__":
    _drive(Path(sys.argv[2]))
