"""A real Serve application that finds out by itself that a tenth of its calls are slow, and hedges them.

The driver is this file run as a program (see test_handle_load.py). Calls are emulated: 20 ms, a tenth of
them fifteen times as long. The application begins without redundancy.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.driver_process import run_driver

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
    run_driver(server, __file__, folder, timeout=400)
    return json.loads((folder / "results.json").read_text())


def test_it_began_without_redundancy_and_waited_for_enough_calls(results):
    assert results["first"]["plan"]["name"] == "none"
    assert "expected at least 200 service times" in results["first"]["auto"]["last"]


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
    # Whether the ingress notices that there is no adviser depends on how soon Serve has started the next; see
    # the unit tests of `Following`. Here there was another adviser in the end, and hedges all the time.
    assert results["another"]
    assert set(results["kinds_after_the_kill"]) == {"hedged"}
    assert results["replaced"]["auto"]["failing"] == ""
    assert results["replaced"]["auto"]["last"] != results["killed_last"], "the next one gives advice, too"


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

    def adviser() -> str | None:
        actors = ray.util.list_named_actors(all_namespaces=True)
        return next((one["name"] for one in actors if "auto#Adviser" in one["name"]), None)

    async def whole() -> None:
        before, after, outcomes = [], [], []
        found["first"] = await load(lambda page, n: page["auto"]["last"], 30, before, outcomes)
        found["changed"] = await load(lambda page, n: page["plan"]["kind"] != "none", 150, before, outcomes)
        await load(lambda page, n: False, 15, after, outcomes)
        killed = adviser()
        found["killed_last"] = (await handle.observations.remote())["auto"]["last"]
        ray.kill(ray.get_actor(killed, namespace="serve"))
        kinds = found["kinds_after_the_kill"] = []

        def advised_anew(page: dict[str, Any], number: int) -> bool:
            kinds.append(page["plan"]["kind"])
            auto = page["auto"]
            return adviser() not in (None, killed) and auto["last"] not in ("", found["killed_last"])

        found["replaced"] = await load(advised_anew, 120, after, outcomes)
        found["another"] = adviser() not in (None, killed)
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
