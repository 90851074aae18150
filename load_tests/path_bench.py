"""The coded path against a plain Serve ingress, in one run on one cluster.

    python -m load_tests.path_bench [--artifacts artifacts/mnist5k] [--json]

Both applications are up at once and take turns, so that a machine whose speed drifts drifts for both.
Latency: median over HTTP at 30 % utilisation of the deployed replicas, no stragglers. Throughput:
answers per second that come within a second of their planned time, at one slot per replica and no
emulated service, with the load made inside each ingress so that the HTTP proxy is not what is measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import typer
import yaml
from rich.console import Console
from rich.table import Table

from load_tests import http_json, serve_app
from load_tests.cluster import Cluster, cluster
from load_tests.phase import LabelledImages, run_phase
from load_tests.server_stats import ServedModel
from parm_ray.core import Outcome
from parm_ray.workload import poisson

ROOT = Path(__file__).parents[1]
CODED, PLAIN = "coded", "plain"
# The plain path's own default; with one slot it would already queue at 30 % utilisation.
SLOTS_PLAIN = 5


def applications(
    artifacts: Path, replicas: int, parities: int, service_ms: float, *, inside: bool
) -> list[dict[str, Any]]:
    """Serve applications of both paths, one slot per replica; `inside`: load from within the ingress."""
    pool = {
        "artifact": str(artifacts / "deployed"),
        "replicas": replicas,
        "num_cpus": 0.1,
        "emulate": {"service_ms": service_ms},
    }
    coded = {
        "name": "mnist",
        "model": pool,
        "plan": {"kind": "coded", "k": 2, "encoder": "concat", "decoder": "slot"},
        "parity": [{**pool, "artifact": str(artifacts / "concat_slot_k2"), "replicas": parities}],
        "ingress": {"num_cpus": 0.1},
        "queue": {"max_queued": 100_000},
        "deadline_ms": 60_000,
    }
    plain = {"pool": pool, "slots": SLOTS_PLAIN if not inside else 1, "inside": inside}
    builder = "load_tests.path_apps:build_coded_inside" if inside else "parm_ray.serve.app:build"
    return [
        _application(CODED, builder, coded),
        _application(PLAIN, "load_tests.path_apps:build_plain", plain),
    ]


def _application(name: str, import_path: str, args: dict[str, Any]) -> dict[str, Any]:
    # Access logs cost as much CPU as routing; both paths go without.
    quiet = {"enable_access_log": False}
    return {
        "name": name,
        "route_prefix": f"/{name}",
        "import_path": import_path,
        "args": args,
        "logging_config": quiet,
    }


def deploy(running: Cluster, apps: list[dict[str, Any]], ready_path: str) -> None:
    """Deploy both applications and wait for them."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "path_bench.yaml"
        http = {"host": "127.0.0.1", "port": running.http_port}
        file.write_text(yaml.safe_dump({"http_options": http, "applications": apps}))
        serve_app.deploy(running, file, ready_path=ready_path)


Offer = Callable[[str, float, float, int], dict[str, float]]


def over_http(running: Cluster, images: LabelledImages) -> Offer:
    """Load through the HTTP proxy, clocked at the client."""
    models = {name: ServedModel.find(f"{running.base_url}/{name}", "mnist") for name in (CODED, PLAIN)}

    def offer(name: str, rate: float, seconds: float, seed: int) -> dict[str, float]:
        rng = np.random.default_rng(seed)
        planned = poisson(rate, rng, duration=seconds)
        queries = images.shuffled(len(planned), rng)
        phase = asyncio.run(run_phase(models[name], planned, queries, timeout_s=5, warm_up=20))
        good = [r.latency_s for r in phase.records if r.outcome is not Outcome.FAILED]
        return {
            "p50_ms": median(good) * 1e3 if good else float("inf"),
            "utilization": phase.utilisation(),
            "errors": len(phase.records) - len(good),
        }

    return offer


def from_within(running: Cluster) -> Offer:
    """Load from inside each ingress process, clocked there."""

    def offer(name: str, rate: float, seconds: float, seed: int) -> dict[str, float]:
        query = f"rate={rate}&seconds={seconds}&seed={seed}"
        answer: dict[str, float] = http_json.get(
            f"{running.base_url}/{name}/?{query}", timeout_s=seconds + 30
        )
        return answer

    return offer


def turns(offer: Offer, rate: float, seconds: float, rounds: int) -> dict[str, list[dict[str, float]]]:
    """Both paths in turn with the same arrivals, the first one changing from round to round."""
    results: dict[str, list[dict[str, float]]] = {CODED: [], PLAIN: []}
    for i in range(rounds):
        for name in (CODED, PLAIN) if i % 2 == 0 else (PLAIN, CODED):
            results[name].append(offer(name, rate, seconds, i))
    return results


def main(
    artifacts: Annotated[Path, typer.Option(help="where deployed/ and concat_slot_k2/ are")] = Path(
        "artifacts/mnist5k"
    ),
    service_ms: Annotated[float, typer.Option(help="emulated service time for the latency part")] = 25.0,
    seconds: Annotated[float, typer.Option(help="seconds of load per turn")] = 10.0,
    rounds: Annotated[int, typer.Option(help="turns of each path")] = 5,
    rates: Annotated[
        str, typer.Option(help="offered queries per second, throughput part")
    ] = "100,150,200,300",
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Run both parts and print the ratios."""
    console = Console(stderr=True)
    artifacts = artifacts.resolve()
    images = LabelledImages.load(artifacts / "queries.npz")
    rows: list[dict[str, Any]] = []
    with cluster(num_cpus=4, cwd=ROOT) as running:
        console.print("latency part: deploying")
        apps = applications(artifacts, 4, 2, service_ms, inside=False)
        deploy(running, apps, f"/{CODED}/v2/health/ready")
        rate = 0.3 * 4 / (service_ms / 1e3)
        results = turns(over_http(running, images), rate, seconds, rounds)
        rows.append(_row("p50 ms over HTTP, 30 % utilisation", "p50_ms", rate, results))
        console.print("throughput part: deploying")
        deploy(running, applications(artifacts, 2, 1, 0.0, inside=True), "/-/healthz")
        offer = from_within(running)
        turns(offer, 20, 2, 1)
        for offered in (float(r) for r in rates.split(",")):
            console.print(f"offering {offered:.0f} queries/s to each path in turn")
            results = turns(offer, offered, seconds, 3)
            rows.append(_row("answers/s in time, one slot", "per_s", offered, results))
            rows.append(_row("p50 ms, same load", "p50_ms", offered, results))
    if as_json:
        print(json.dumps({"command": " ".join(sys.argv), "rows": rows}, indent=2))
        return
    table = Table(
        "what", "offered/s", "coded", "plain Serve", "coded / plain", "min..max", title="Path benchmark"
    )
    for row in rows:
        table.add_row(
            row["what"],
            f"{row['offered_per_s']:.0f}",
            f"{row[CODED]:.1f}",
            f"{row[PLAIN]:.1f}",
            f"{row['ratio']:.3f}",
            f"{row['ratio_min']:.3f}..{row['ratio_max']:.3f}",
        )
    Console().print(table)
    print(f"python -m load_tests.path_bench {' '.join(sys.argv[1:])}")


def _row(what: str, key: str, rate: float, results: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    ratios = [c[key] / max(p[key], 1e-9) for c, p in zip(results[CODED], results[PLAIN], strict=True)]
    return {
        "what": what,
        "offered_per_s": rate,
        CODED: median(r[key] for r in results[CODED]),
        PLAIN: median(r[key] for r in results[PLAIN]),
        "ratio": median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "rounds": results,
    }


if __name__ == "__main__":
    typer.run(main)
