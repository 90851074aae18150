"""Many queries through one ingress while replicas stall at random: memory and what is left behind.

    python -m load_tests.soak [--queries 100000] [--json]

Not a latency test: a fixed number of requests is kept going, each with several queries, and every
query forms groups, is encoded, answered, reconstructed, compared on its own. Needs the tiny recipe's
models (python -m train.run --recipe tiny).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import aiohttp
import typer
from rich.console import Console

from load_tests import oip, serve_app
from load_tests.cluster import Cluster, cluster
from load_tests.phase import LabelledImages
from load_tests.server_stats import ServedModel
from parm_ray.core import monotonic

ROOT = Path(__file__).parents[1]
MIB = 2**20
LEFT_OPEN = ("groups_open", "queries_open", "futures_open", "timers_open", "calls_outstanding")


@dataclass
class Soak:
    """One run. Counts queries by status and outcome, and samples the ingress's memory."""

    model: ServedModel
    images: LabelledImages
    per_request: int
    left: int
    answered: Counter[str] = field(default_factory=Counter)
    samples: list[tuple[int, int]] = field(default_factory=list)

    async def run(self, concurrency: int, console: Console) -> None:
        """Keep `concurrency` requests going until all queries are sent, sampling memory meanwhile."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
            workers = [asyncio.create_task(self._work(session, i)) for i in range(concurrency)]
            watcher = asyncio.create_task(self._watch(console))
            await asyncio.gather(*workers)
            watcher.cancel()

    async def _work(self, session: aiohttp.ClientSession, worker: int) -> None:
        tensor = self.model.input
        template = oip.RequestTemplate(
            tensor.name, tensor.shape, tensor.dtype, self.model.output.name, self.per_request
        )
        url = f"{self.model.base_url}/v2/models/{self.model.name}/infer"
        n = self.per_request
        offset = worker * n
        while self.left > 0:
            self.left -= n
            offset = (offset + n) % (len(self.images.images) - n)
            body = template.body(self.images.images[offset : offset + n])
            async with session.post(url, data=body, headers=template.headers) as response:
                text = await response.read()
                if response.status != 200:
                    self.answered[f"HTTP {response.status}"] += n
                    continue
                self.answered.update(
                    oip.document(response.headers, text)["parameters"]["outcomes"].split(",")
                )

    async def _watch(self, console: Console) -> None:
        while True:
            stats = await asyncio.to_thread(self.model.stats)
            self.samples.append((sum(self.answered.values()), stats["rss_bytes"]))
            console.print(
                f"{self.samples[-1][0]:>7} answered, {stats['rss_bytes'] / MIB:.0f} MiB, "
                f"{stats['groups_open']} groups open",
                highlight=False,
            )
            await asyncio.sleep(5)


async def stall_at_random(running: Cluster, rng: random.Random, every_s: float) -> None:
    """Stop one deployed replica after the other, each for 0.1 to 1.5 s, until cancelled."""
    while True:
        await asyncio.sleep(rng.uniform(0.5, 1.5) * every_s)
        pids = serve_app.replica_pids(
            await asyncio.to_thread(serve_app.applications, running), "DeployedModel"
        )
        pid = rng.choice(pids)
        if not running.owns(pid):
            continue
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(rng.uniform(0.1, 1.5))
        finally:
            os.kill(pid, signal.SIGCONT)


async def settled(model: ServedModel, timeout_s: float = 30) -> dict[str, Any]:
    """The stats page once nothing is open, or after `timeout_s` as it is."""
    give_up = monotonic() + timeout_s
    while True:
        stats = await asyncio.to_thread(model.stats)
        if not any(stats[key] for key in LEFT_OPEN) or monotonic() > give_up:
            return stats
        await asyncio.sleep(0.2)


def main(
    queries: Annotated[int, typer.Option(help="queries in all")] = 100_000,
    per_request: Annotated[int, typer.Option(help="queries per HTTP request")] = 16,
    concurrency: Annotated[int, typer.Option(help="requests under way at once")] = 6,
    stall_every_s: Annotated[float, typer.Option(help="mean seconds between stalls")] = 3.0,
    seed: Annotated[int, typer.Option(help="of the stalls")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Run, then report memory after warm-up (a tenth of the queries) and at the end, and leftovers."""
    console = Console(stderr=True)
    images = LabelledImages.load(ROOT / "artifacts" / "digits" / "queries.npz")
    with tempfile.TemporaryDirectory() as folder, cluster(num_cpus=4, cwd=ROOT) as running:
        file = Path(folder) / "tiny.yaml"
        serve_app.render_config(
            ROOT / "serve_configs" / "tiny.yaml", file, http_port=running.http_port, root=ROOT
        )
        serve_app.deploy(running, file)
        model = ServedModel.find(running.base_url, "digits")
        soak = Soak(model, images, per_request, queries)

        async def everything() -> dict[str, Any]:
            stalls = asyncio.create_task(stall_at_random(running, random.Random(seed), stall_every_s))
            try:
                await soak.run(concurrency, console)
            finally:
                stalls.cancel()
                await asyncio.gather(stalls, return_exceptions=True)
            return await settled(model)

        stats = asyncio.run(everything())
    sent = sum(soak.answered.values())
    warm = next((rss for n, rss in soak.samples if n >= sent // 10), stats["rss_bytes"])
    result = {
        "command": f"python -m load_tests.soak {' '.join(sys.argv[1:])}".strip(),
        "queries": sent,
        "answered": dict(soak.answered),
        "rss_mib_warm": round(warm / MIB, 1),
        "rss_mib_end": round(stats["rss_bytes"] / MIB, 1),
        "left_open": {key: stats[key] for key in LEFT_OPEN},
        "agreement": stats["agreement"],
        "samples": soak.samples,
    }
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        for key, value in result.items():
            if key != "samples":
                print(f"{key}: {value}")


if __name__ == "__main__":
    typer.run(main)
