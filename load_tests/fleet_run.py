"""`python -m load_tests.fleet_run`: a fleet on real Serve, and what its users see when things go wrong.

Deploys `serve_configs/routing/emulated_fleet.yaml` (emulated engines, real HTTP, real Serve) on a cluster
of its own and sends open-loop requests to both front ends: in calm; with the control plane killed; with an
engine ten times as slow; with one that fails every call; with all failing; at 0.9 and 1.5 times what the
engines can serve here, which a closed loop through the same front ends measures before. Latencies run from
the planned time. Prints a row a phase, what overload costs, and the command that made them.
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
from dataclasses import asdict
from pathlib import Path
from typing import Any

import aiohttp

from load_tests.cluster import Cluster, ClusterError, cluster
from load_tests.fleet_requests import ENGINES, FRONT_ENDS, NOMINAL, SLOTS, Fleet
from load_tests.fleet_rows import overload_of, row_of, show
from load_tests.serve_app import applications, deploy, render_config, replica_pids
from parm_ray.core import monotonic

ROOT = Path(__file__).parent.parent

# Of the nominal capacity: what goes wrong goes wrong at half of what there is.
USUAL = 0.45

# (name, what is wrong with which engines, whether the control plane is killed)
INCIDENTS: tuple[tuple[str, dict[str, dict[str, Any]], bool], ...] = (
    ("calm", {}, False),
    ("control plane killed", {}, True),
    ("east ten times as slow", {"east": {"slow": 10}}, False),
    ("east fails every call", {"east": {"failing": True}}, False),
    ("all fail every call", {name: {"failing": True} for name in ENGINES}, False),
)

# Requests at a time for each slot of an engine, and of the measured capacity what is offered then.
CLOSED = (2, 4, 8)
NEAR, BEYOND = 0.9, 1.5


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
            found = asyncio.run(_run(running, options.seconds, options.batch))
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    given = shlex.join(sys.argv[1:] if argv is None else argv)
    found = {"command": f"python -m load_tests.fleet_run {given}".rstrip(), **found}
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        show(found)
        print(found["command"])
    return 0


async def _run(running: Cluster, seconds: float, batch: float) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(running.base_url, connector=connector) as session:
        fleet = Fleet(session, batch)

        async def phase(name: str, rate: float) -> None:
            before = await _retries(session)
            shots = await fleet.open(rate, seconds, len(rows) + 1)
            after = await _retries(session)
            retries = {key: after[key] - before[key] for key in after}
            rows.append(row_of(name, rate, shots, seconds, retries))

        await _settled(fleet)
        await fleet.open(0.3 * NOMINAL, 5.0, 0)
        for name, wrong, kill in INCIDENTS:
            for engine, how in wrong.items():
                await _disturb(session, engine, how)
            if kill:
                pids = await asyncio.to_thread(lambda: replica_pids(applications(running), "FleetControl"))
                os.kill(pids[0], signal.SIGKILL)
            await phase(name, USUAL * NOMINAL)
            for engine in wrong:
                await _disturb(session, engine, {})
            await _settled(fleet)
        loops = []
        for each in CLOSED:
            loops.append(await fleet.closed(each * SLOTS * len(ENGINES), seconds / 2, each))
        await _settled(fleet)
        measured = max(loop.answered_per_s for loop in loops)
        for times in (NEAR, BEYOND):
            await phase(f"{times:g} of measured capacity", times * measured)
            await _settled(fleet)
    near, beyond = rows[-2:]
    closed = [asdict(loop) for loop in loops]
    return {
        "capacity": {"nominal_per_s": NOMINAL, "measured_per_s": measured, "closed": closed},
        "rows": rows,
        "overload": overload_of(near, beyond, measured),
    }


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


async def _settled(fleet: Fleet, limit_s: float = 120.0) -> None:
    """Wait until every front end has a plan and no engine a penalty. Light traffic is what shows recovery."""
    session, end = fleet.session, monotonic() + limit_s
    while monotonic() < end:
        await fleet.open(0.25 * NOMINAL, 2.0, 0)
        plans = []
        for name in FRONT_ENDS:
            async with session.get(f"/{name}/v2/routing") as answer:
                plans.append((await answer.json())["version"])
        async with session.get("/control/snapshot") as answer:
            said = await answer.json() if answer.status == 200 else {"penalties": {"": 0}}
        if all(plans) and not said["penalties"]:
            return
    raise ClusterError(f"the fleet did not settle within {limit_s:g} s")


if __name__ == "__main__":
    sys.exit(main())
