"""`python -m load_tests.fleet_run`: a fleet on real Serve, and what its users see when things go wrong.

Deploys `serve_configs/routing/emulated_fleet.yaml` (emulated engines, real HTTP, real Serve) on a cluster
of its own and sends open-loop requests to both front ends: in calm; with the control plane killed; with an
engine ten times as slow; with one that fails every call; with all failing; at 0.9 and 1.5 times what the
engines can serve. Latencies run from the planned time. Prints a row a phase, and the command that made them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
from rich.console import Console
from rich.table import Table

from load_tests.client import Reply, SendFailed, Shot, open_loop
from load_tests.cluster import Cluster, ClusterError, cluster
from load_tests.serve_app import applications, deploy, render_config, replica_pids
from parm_ray.core import monotonic
from parm_ray.workload import poisson

ROOT = Path(__file__).parent.parent
FRONT_ENDS, ENGINES = ("east", "west"), ("east", "west", "south")

# What one emulated engine serves: two slots, 5 ms for a prompt and 7 more tokens of 10 ms.
TOKENS = 8
CAPACITY = len(ENGINES) * 2 / (0.005 + 0.010 * (TOKENS - 1))

# (name, load as a share of CAPACITY, what is wrong with which engines, whether the control plane is killed)
PHASES: tuple[tuple[str, float, dict[str, dict[str, Any]], bool], ...] = (
    ("calm", 0.45, {}, False),
    ("control plane killed", 0.45, {}, True),
    ("east ten times as slow", 0.45, {"east": {"slow": 10}}, False),
    ("east fails every call", 0.45, {"east": {"failing": True}}, False),
    ("all fail every call", 0.45, {name: {"failing": True} for name in ENGINES}, False),
    ("0.9 of capacity", 0.9, {}, False),
    ("1.5 of capacity", 1.5, {}, False),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the phases; 0 if they ran, 2 if the fleet did not come up."""
    parser = argparse.ArgumentParser(
        prog="python -m load_tests.fleet_run", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of each phase (default: %(default)s)")
    parser.add_argument("--batch", type=float, default=0.5, help="share of the cheaper demand")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args(argv)
    try:
        with cluster(num_cpus=4, cwd=ROOT) as running, tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "fleet.yaml"
            source = ROOT / "serve_configs" / "routing" / "emulated_fleet.yaml"
            render_config(source, config, http_port=running.http_port, root=ROOT)
            deploy(running, config, ready_path="/east/v2/health/ready")
            rows = asyncio.run(_run(running, options.seconds, options.batch))
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        _print(rows)
        given = shlex.join(sys.argv[1:] if argv is None else argv)
        print(f"python -m load_tests.fleet_run {given}".rstrip())
    return 0


async def _run(running: Cluster, seconds: float, batch: float) -> list[dict[str, Any]]:
    rows = []
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(running.base_url, connector=connector) as session:
        await _settled(session)
        await _phase(session, 0.3, 5.0, batch, 0)
        for number, (name, load, wrong, kill) in enumerate(PHASES, 1):
            for engine, how in wrong.items():
                await _disturb(session, engine, how)
            if kill:
                pids = await asyncio.to_thread(lambda: replica_pids(applications(running), "FleetControl"))
                os.kill(pids[0], signal.SIGKILL)
            before = await _retries(session)
            shots = await _phase(session, load, seconds, batch, number)
            after = await _retries(session)
            rows.append(_row(name, load, shots, seconds, {key: after[key] - before[key] for key in after}))
            for engine in wrong:
                await _disturb(session, engine, {})
            await _settled(session)
    return rows


async def _phase(
    session: aiohttp.ClientSession, load: float, seconds: float, batch: float, seed: int
) -> list[tuple[str, Shot[Reply]]]:
    """Send a phase's requests; each with its demand."""
    rng = np.random.default_rng(seed)
    rate = load * CAPACITY
    planned = poisson(rate, rng=rng, duration=seconds)
    demands = np.where(rng.random(len(planned)) < batch, "batch", "default")
    front_ends = rng.choice(FRONT_ENDS, len(planned))
    body = {"text_input": "a prompt", "parameters": {"max_tokens": TOKENS}}

    async def send(i: int) -> Reply:
        try:
            async with session.post(
                f"/{front_ends[i]}/v2/models/llm/generate",
                json=body,
                headers={"x-parm-demand": str(demands[i])},
            ) as answer:
                return Reply(answer.status, answer.headers, await answer.read())
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise SendFailed(str(error)) from None

    shots = await open_loop(planned.tolist(), send, start=monotonic() + 0.1)
    return list(zip(demands.tolist(), shots, strict=True))


def _row(
    name: str, load: float, shots: list[tuple[str, Shot[Reply]]], seconds: float, retries: dict[str, int]
) -> dict[str, Any]:
    statuses: Counter[str] = Counter()
    times, spent, engines = [], [], Counter[str]()
    shed: Counter[str] = Counter()
    demands = Counter(demand for demand, _ in shots)
    # The last third: what a controller's reaction has settled to.
    late: Counter[str] = Counter()
    for demand, shot in shots:
        reply = shot.result
        if isinstance(reply, SendFailed):
            statuses["no response"] += 1
            continue
        statuses[str(reply.status)] += 1
        engine = reply.headers.get("x-parm-engine", "")
        if reply.status == 200:
            times.append(1e3 * (shot.done - shot.planned))
            engines[engine] += 1
            late[engine] += shot.planned > 2 / 3 * seconds
        elif reply.status == 503 and "Retry-After" in reply.headers:
            shed[demand] += 1
            spent.append(float(reply.headers.get("x-parm-spent-ms", "nan")))
    lateness = np.quantile([1e3 * (shot.sent - shot.planned) for _, shot in shots], 0.99)
    return {
        "phase": name,
        "load": load,
        "requests": len(shots),
        "statuses": dict(statuses),
        "answered_per_s": len(times) / seconds,
        "of_capacity": len(times) / seconds / CAPACITY,
        "p50_ms": _quantile(times, 0.5),
        "p99_ms": _quantile(times, 0.99),
        "shed": {demand: shed[demand] / count for demand, count in sorted(demands.items())},
        "refused_within_ms_p50": _quantile(spent, 0.5),
        "refused_within_ms_p99": _quantile(spent, 0.99),
        "sent": 1 + retries["granted"] / max(1, retries["offered"]),
        "engines": {engine: engines[engine] / max(1, len(times)) for engine in ENGINES},
        "engines_at_the_end": {engine: late[engine] / max(1, late.total()) for engine in ENGINES},
        "generator_late_ms_p99": float(lateness),
    }


def _quantile(values: list[float], q: float) -> float | None:
    return float(np.quantile(values, q)) if values else None


async def _disturb(session: aiohttp.ClientSession, engine: str, how: dict[str, Any]) -> None:
    async with session.post(f"/engine-{engine}/disturb", json=how) as answer:
        answer.raise_for_status()


async def _retries(session: aiohttp.ClientSession) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for name in FRONT_ENDS:
        async with session.get(f"/{name}/v2/routing") as answer:
            said = (await answer.json())["retries"]
        totals.update({key: said[key] for key in ("offered", "granted")})
    return {key: totals[key] for key in ("offered", "granted")}


async def _settled(session: aiohttp.ClientSession, limit_s: float = 120.0) -> None:
    """Wait until every front end has a plan and no engine a penalty. Light traffic is what shows recovery."""
    end = monotonic() + limit_s
    while monotonic() < end:
        await _phase(session, 0.25, 2.0, 0.5, 0)
        plans = []
        for name in FRONT_ENDS:
            async with session.get(f"/{name}/v2/routing") as answer:
                plans.append((await answer.json())["version"])
        async with session.get("/control/snapshot") as answer:
            said = await answer.json() if answer.status == 200 else {"penalties": {"": 0}}
        if all(plans) and not said["penalties"]:
            return
    raise ClusterError(f"the fleet did not settle within {limit_s:g} s")


def _print(rows: list[dict[str, Any]]) -> None:
    table = Table(
        "phase", "requests", "statuses", "answered/s", "of capacity", "p50 ms", "p99 ms", "shed",
        "refused in ms, p50", "p99", "sent", "shares",
        "at the end", title=f"capacity {CAPACITY:.1f}/s", title_justify="left",
    )  # fmt: skip
    for row in rows:
        table.add_row(
            row["phase"],
            str(row["requests"]),
            ", ".join(f"{status}: {count}" for status, count in sorted(row["statuses"].items())),
            f"{row['answered_per_s']:.1f}",
            f"{row['of_capacity']:.3f}",
            *("-" if row[name] is None else f"{row[name]:.0f}" for name in ("p50_ms", "p99_ms")),
            ", ".join(f"{demand} {100 * share:.1f} %" for demand, share in row["shed"].items()),
            *(
                "-" if row[name] is None else f"{row[name]:.2f}"
                for name in ("refused_within_ms_p50", "refused_within_ms_p99")
            ),
            f"{row['sent']:.3f}",
            *(
                ", ".join(f"{name} {100 * share:.0f}" for name, share in row[key].items())
                for key in ("engines", "engines_at_the_end")
            ),
        )
    Console(width=None if Console().is_terminal else 200).print(table)


if __name__ == "__main__":
    sys.exit(main())
