"""A fleet on real Serve for tests, with a load on its front ends.

The driver is this file run as a program: it deploys, and carries out what comes on its standard input.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
RATE = 15.0
BODY = {"text_input": "two words", "parameters": {"max_tokens": 3}}


@dataclass(frozen=True)
class Seen:
    at: float
    status: int
    engine: str
    took_s: float


class Fleet:
    """The running fleet, its driver, and a load on both front ends."""

    def __init__(self, server: Any, driver: subprocess.Popen[str]) -> None:
        self.server, self._driver = server, driver
        self._threads = ThreadPoolExecutor(64)

    def tell(self, **command: Any) -> None:
        assert self._driver.stdin is not None
        self._driver.stdin.write(json.dumps(command) + "\n")
        self._driver.stdin.flush()
        self.wait()

    def wait(self) -> None:
        assert self._driver.stdout is not None
        while (line := self._driver.stdout.readline()).strip() != "done":
            assert line, "the driver has ended"

    def ask(self, front_end: str, **headers: str) -> Seen:
        began = time.monotonic()
        status, got, _ = self.server.request(
            f"/{front_end}/v2/models/llm/generate", BODY, headers, timeout=20
        )
        return Seen(began, status, got.get("x-parm-engine", ""), time.monotonic() - began)

    def load(self, seconds: float) -> list[Seen]:
        """Open-loop Poisson requests, RATE per second at each front end."""
        rng, end = random.Random(1), time.monotonic() + seconds
        futures = []
        while time.monotonic() < end:
            time.sleep(rng.expovariate(2 * RATE))
            futures.append(self._threads.submit(self.ask, rng.choice(["east", "west"])))
        return [future.result() for future in futures]

    def disturb(self, engine: str, **how: Any) -> None:
        headers = {"content-type": "application/json"}
        assert self.server.request(f"/engine-{engine}/disturb", how, headers)[0] == 200

    def get(self, path: str) -> Any:
        status, _, body = self.server.request(path)
        assert status == 200, body
        return json.loads(body)

    def until(self, said: Any, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not said():
            assert time.monotonic() < end, "it did not come about"
            time.sleep(0.2)


@contextlib.contextmanager
def running_fleet(server: Any) -> Iterator[Fleet]:
    """Two front ends, three emulated engines, and a front end of its own for a model with a code."""
    address = (server.cluster.temp_dir / "ray_current_cluster").read_text()
    driver = subprocess.Popen(
        [sys.executable, __file__, address],
        env=server.cluster.env | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    running = Fleet(server, driver)
    try:
        running.wait()
        for name in ("east", "west"):
            running.until(lambda name=name: running.get(f"/{name}/v2/routing")["version"] > 0)
        running.load(2.0)
        yield running
    finally:
        if driver.stdin is not None:
            driver.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            driver.wait(60)
        driver.kill()


def shares(seen: list[Seen]) -> dict[str, float]:
    counts = Counter(one.engine for one in seen)
    return {name: count / len(seen) for name, count in counts.items()}


def _drive(address: str) -> None:
    import ray
    from ray import serve

    from parm_ray.config.fleet_file import FleetSettings, FrontEndArguments
    from parm_ray.config.token_engine import TokenEngineSettings
    from parm_ray.serve.fleet.app import control_plane, front_end, token_engine

    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    document = yaml.safe_load((ROOT / "serve_configs" / "routing" / "emulated_fleet.yaml").read_text())
    # One object for all applications, as the file has an alias.
    document["applications"][0]["args"]["data_plane"]["timeout_ms"] = 3000
    builders = {
        "control_plane": (control_plane, FleetSettings),
        "front_end": (front_end, FrontEndArguments),
        "token_engine": (token_engine, TokenEngineSettings),
    }
    for app in document["applications"]:
        build, model = builders[app["import_path"].split(":")[1]]
        args = model.model_validate(app["args"])
        serve.run(build(args), name=app["name"], route_prefix=app["route_prefix"])
    alone = {
        "front_ends": {"solo": {"demands": [{"rate": 10}]}},
        "engines": {"digits": {"app": "parm", "latency": {"rate": 200}}},
        "network_ms": {"solo": {"digits": 0}},
    }
    arguments = FrontEndArguments.model_validate(
        {"fleet": alone, "name": "solo", "control": "nobody", "num_cpus": 0.1}
    )
    serve.run(front_end(arguments), name="solo", route_prefix="/solo")
    print("done", flush=True)
    for line in sys.stdin:
        serve.delete(json.loads(line)["delete"])
        print("done", flush=True)
    for name in [*(app["name"] for app in document["applications"]), "solo"]:
        serve.delete(name, _blocking=False)


if __name__ == "__main__":
    _drive(sys.argv[1])
