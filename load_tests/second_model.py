"""`python -m load_tests.second_model`: another application on some of the nodes, and its queries.

Inference multitenancy: its replicas share nodes, and the emulated accelerators there, with those of a
scenario; see the scenarios' key `second_model`. Run by itself it sends queries until SIGINT, at planned
times, whatever becomes of them, and writes no records: it is there to be in the way.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from load_tests import oip
from load_tests.background_process import running
from load_tests.client import SendFailed
from load_tests.given_cluster import SECOND_MODEL
from load_tests.http_target import HttpTarget
from load_tests.netlab import LabSettings
from load_tests.netlab.settings import NodeOverride
from load_tests.phase import LabelledImages
from load_tests.server_stats import ServedModel
from parm_ray.config.loading import BUILDER
from parm_ray.config.scenario import Scenario
from parm_ray.core import monotonic

NAME = SECOND_MODEL
"""Of the application, its model, its route and the resource that its nodes have."""

ACCELERATOR = "node"
"""The name by which replicas on one node share its emulated accelerator."""

TIMEOUT_S = 30.0

FAILURES = 0.01
"""The share of failed queries from which on it is not the load that the scenario speaks of."""


def application(scenario: Scenario, root: Path, num_cpus: float) -> dict[str, Any]:
    """Return the Serve application: the deployed model again, on the nodes that have the resource NAME."""
    assert scenario.second_model is not None
    assert scenario.artifacts is not None
    model = {
        "artifact": str((root / scenario.artifacts / "deployed").resolve()),
        "replicas": scenario.second_model.nodes,
        "num_cpus": num_cpus,
        "resources": {NAME: 1.0},
        "emulate": {"service": scenario.service, "accelerator": ACCELERATOR, "seed": scenario.seed},
    }
    args = {
        "name": NAME,
        "model": model,
        "queue": {"max_queued": 1_000_000},
        "deadline_ms": 1e3 * TIMEOUT_S,
        "ingress": {"num_cpus": num_cpus},
    }
    return {"name": NAME, "route_prefix": f"/{NAME}", "import_path": BUILDER, "args": args}


def on_some_nodes(settings: LabSettings, nodes: int) -> LabSettings:
    """Return the lab with the resource NAME on that many of its model nodes, if none has it yet.

    Raises pydantic.ValidationError for more nodes than there are.
    """
    if any(NAME in override.resources for override in settings.nodes.values()):
        return settings
    overrides = dict(settings.nodes)
    for node in range(1, nodes + 1):
        before = overrides.get(node, NodeOverride())
        overrides[node] = before.model_copy(update={"resources": {**before.resources, NAME: 1.0}})
    return LabSettings.model_validate({**settings.model_dump(), "nodes": overrides})


@contextmanager
def querying(scenario: Scenario, url: str, root: Path, seed: int) -> Iterator[None]:
    """Keep the second model's queries coming while the block runs, if the scenario has one.

    Raises ClusterError if that does not start, or ends by itself.
    """
    if scenario.second_model is None:
        yield
        return
    images = root / str(scenario.artifacts) / "queries.npz"
    command = [
        *(sys.executable, "-m", "load_tests.second_model", "--url", f"{url}/{NAME}", "--model", NAME),
        *("--images", str(images), "--rate", repr(scenario.second_model.rate), "--seed", str(seed)),
    ]
    with running("the second model's queries", command, "querying"):
        yield


async def send_queries(model: ServedModel, rate: float, images: LabelledImages, seed: int) -> tuple[int, int]:
    """Send queries at Poisson times until SIGINT or SIGTERM; return how many were sent, and failed."""
    rng = np.random.default_rng(seed)
    template = oip.RequestTemplate(model.input.name, model.input.shape, model.input.dtype, model.output.name)
    bodies = [template.body(image) for image in images.images]
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    sent, failed = 0, 0
    under_way: set[asyncio.Task[None]] = set()

    async def send(target: HttpTarget, i: int) -> None:
        nonlocal failed
        try:
            failed += (await target(i)).status != 200
        except SendFailed:
            failed += 1

    async with HttpTarget(
        model.base_url, model.name, template.headers, lambda i: bodies[i % len(bodies)], TIMEOUT_S
    ) as target:
        await target.warm_up(8)
        print(f"querying {model.name} at {rate:g}/s", file=sys.stderr, flush=True)
        at = monotonic()
        while not over.is_set():
            at += rng.exponential(1 / rate)
            try:
                await asyncio.wait_for(over.wait(), max(0.0, at - monotonic()))
            except asyncio.TimeoutError:
                task = asyncio.create_task(send(target, sent))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                sent += 1
        for task in under_way:
            task.cancel()
    return sent, failed


def main(argv: Sequence[str] | None = None) -> int:
    """Send queries until told to end; return 0, 1 if more than FAILURES failed, 2 without a start."""
    parser = argparse.ArgumentParser(prog="python -m load_tests.second_model", description=__doc__)
    parser.add_argument("--url", required=True, help="of the application")
    parser.add_argument("--model", default=NAME, help="the served model's name (default: %(default)s)")
    parser.add_argument("--images", type=Path, required=True, help="npz file with `images` and `labels`")
    parser.add_argument("--rate", type=float, required=True, help="queries per second")
    parser.add_argument("--seed", type=int, default=0, help="of the arrivals")
    options = parser.parse_args(argv)
    try:
        model = ServedModel.find(options.url.rstrip("/"), options.model)
        images = LabelledImages.load(options.images)
        sent, failed = asyncio.run(send_queries(model, options.rate, images, options.seed))
    except (OSError, KeyError, SendFailed) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    print(f"sent {sent} queries, {failed} failed", file=sys.stderr)
    return int(failed > FAILURES * sent)


if __name__ == "__main__":
    sys.exit(main())
