"""`python -m load_tests.auto_run`: a server that chooses its plan, while the load goes up and down again.

Light load, 80 % of the replicas' time, light load, under stragglers (2 % of the calls take ten times as long;
emulated accelerators, real forward passes, real HTTP). The same arrivals against: the server with `auto`,
and two plans that stay. Prints p99 of each phase, of all of it and of its second half, beside the better of
the plans that stay, and every plan that was in force, with the reasons for changes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from load_tests import http_json
from load_tests.cluster import ClusterError, cluster
from load_tests.phase import LabelledImages, run_phase
from load_tests.progress import Reporter
from load_tests.records import ClientRecord, failures, latencies
from load_tests.run import ROOT, interrupt
from load_tests.scenario_apps import document_of
from load_tests.scenario_places import OneCluster
from load_tests.server_stats import ServedModel
from parm_ray.config.scenario import Scenario, ScenarioPlan
from parm_ray.core import ParmError
from parm_ray.models.manifest import load_manifest
from parm_ray.stats import percentile
from parm_ray.workload import poisson

ARTIFACTS = "artifacts/mnist5k"
REPLICAS = 6
LOADS = (("light", 0.2), ("heavy", 0.8), ("light again", 0.2))
SHARED = {"kind": "coded", "encoder": "concat", "decoder": "slot", "k": 2, "pool": "shared"}
PLANS: dict[str, dict[str, Any]] = {
    "auto": SHARED,
    "coded, shared": SHARED,
    "hedged": {"kind": "hedged"},
}
AUTO = {"objective": "p99", "interval_s": 10, "dwell_s": 30, "repeats": 2, "num_cpus": 0.1}
WATCH_S = 2.0


@dataclass
class Watched:
    """What the server said of its plan as it changed: seconds since the start, plan, why; and all advices."""

    plans: list[tuple[float, str, str]] = field(default_factory=list)
    advices: list[str] = field(default_factory=list)


def scenario() -> Scenario:
    """Return the setting, without loads: those are this script's own."""
    return Scenario.model_validate(
        {
            "name": "auto",
            "m": REPLICAS,
            "loads": [0.5],
            "service": {"kind": "shifted_exponential", "shift_s": 0.18, "mean_s": 0.2},
            "slowness": {"share": 0.02, "factor": 10},
            "artifacts": ARTIFACTS,
            "plans": [
                {"name": f"plan{n}", "title": name, "deployed": REPLICAS, "plan": plan}
                for n, (name, plan) in enumerate(PLANS.items())
            ],
        }
    )


def measured(
    place: OneCluster, what: Scenario, plan: ScenarioPlan, options: argparse.Namespace, reporter: Reporter
) -> dict[str, Any]:
    """Deploy a plan and send it all phases."""
    document = document_of(what, plan, ROOT)
    title = str(plan.title)
    if title == "auto":
        document["applications"][0]["args"]["auto"] = AUTO | {"interval_s": options.interval}
    with reporter.step(f"deploying {title}"):
        url = place.deploy(document, options.out / f"{plan.name}.yaml")
    model = ServedModel.find(url, load_manifest(ROOT / ARTIFACTS / "deployed").name)
    images = LabelledImages.load(ROOT / ARTIFACTS / "queries.npz")
    found, watched, stop = {}, Watched(), threading.Event()
    watcher = threading.Thread(target=_watch, args=(model, watched, stop), daemon=True)
    watcher.start()
    for number, (name, load) in enumerate(LOADS):
        rng = np.random.default_rng([options.seed, number])
        rate = load * REPLICAS / what.mean_service_s
        planned = poisson(rate, rng, n=int(rate * options.seconds))
        with reporter.load(f"{title}, {name}: {rate:.1f}/s", len(planned)) as on_done:
            phase = asyncio.run(
                run_phase(
                    model,
                    planned,
                    images.shuffled(len(planned), rng),
                    timeout_s=10.0,
                    warm_up=20 if number == 0 else 0,
                    on_done=on_done,
                )
            )
        found[name] = _row(phase.records, options.seconds) | {"utilisation": phase.utilisation()}
    stop.set()
    watcher.join()
    return {"phases": found, "plans": watched.plans, "advices": watched.advices}


def _watch(model: ServedModel, watched: Watched, stop: threading.Event) -> None:
    began = time.monotonic()
    while not stop.wait(WATCH_S):
        try:
            page = http_json.get(f"{model.base_url}/v2/models/{model.name}/observations")
        except OSError:
            continue
        plan, auto = page["plan"]["name"], page["auto"] or {}
        if not watched.plans or watched.plans[-1][1] != plan:
            watched.plans.append((round(time.monotonic() - began, 1), plan, auto.get("why", "")))
        if auto.get("last") and (not watched.advices or watched.advices[-1] != auto["last"]):
            watched.advices.append(auto["last"])


def _row(records: Sequence[ClientRecord], seconds: float) -> dict[str, Any]:
    late = [one for one in records if one.planned >= seconds / 2]
    return {
        "queries": len(records),
        "failed": failures(records),
        "p50_ms": 1e3 * percentile(latencies(records), 0.5, failures(records)),
        "p99_ms": 1e3 * percentile(latencies(records), 0.99, failures(records)),
        "settled_p99_ms": 1e3 * percentile(latencies(late), 0.99, failures(late)),
    }


def summary(found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return, for each phase, auto's p99 over that of the better plan that stays."""
    rows = []
    for name, _ in LOADS:
        row: dict[str, Any] = {"phase": name}
        for which in ("p99_ms", "settled_p99_ms"):
            static = min(found[plan]["phases"][name][which] for plan in found if plan != "auto")
            row[which] = found["auto"]["phases"][name][which]
            row[f"better_static_{which}"] = static
            row[f"ratio_{which}"] = row[which] / static
        rows.append(row)
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; exit status 2 if it could not run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=240.0, help="of a phase")
    parser.add_argument("--interval", type=float, default=10.0, help="of the adviser, seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "auto")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    what, reporter = scenario(), Reporter(Console(stderr=True))
    try:
        with cluster(num_cpus=4, cwd=ROOT) as ray:
            place = OneCluster(ray)
            found = {str(p.title): measured(place, what, p, options, reporter) for p in what.plans}
    except (ParmError, ClusterError, OSError, KeyError, ValueError) as error:
        Console(stderr=True).print(f"[red]error:[/] {error}", highlight=False, soft_wrap=True)
        return 2
    rows = summary(found)
    command = f"python -m load_tests.auto_run {' '.join(argv if argv is not None else sys.argv[1:])}"
    if options.json:
        print(json.dumps({"command": command, "phases": rows, "runs": found}, indent=1))
        return 0
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row.values()))
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    for at, plan, why in found["auto"]["plans"]:
        print(f"{at:7.1f} s  {plan}  {why}")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    sys.exit(main())
