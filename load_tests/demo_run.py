"""Carries out the demo: one cluster, every plan in turn under the same load, then the faults."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from load_tests import serve_app
from load_tests.cluster import Cluster, ClusterError, cluster
from load_tests.demo_plans import FAULTED, DemoPlan
from load_tests.faults import Fault
from load_tests.phase import LabelledImages, Phase, run_phase
from load_tests.progress import Reporter
from load_tests.records import write_csv
from load_tests.server_stats import ServedModel
from parm_ray.workload import poisson

DEPLOYED = "DeployedModel"
# How long the client waits beyond the server's own deadline before it calls a query lost.
PATIENCE_S = 5.0


@dataclass(frozen=True)
class Load:
    """How much, how fast, and the seed of everything drawn. Rates in queries per second."""

    queries: int
    rate: float
    seed: int


@dataclass(frozen=True)
class FaultPlan:
    """When the faults come, in seconds into the fault phase of `duration` seconds."""

    duration: float = 22.0
    stall_at: float = 3.0
    stall_s: float = 5.0
    kill_at: float = 12.0


@dataclass
class Outcome:
    """Everything the demo measured, by plan name; group traces as the server gave them."""

    phases: dict[str, Phase] = field(default_factory=dict)
    groups: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    fault_phase: Phase | None = None


def run_demo(
    plans: Sequence[DemoPlan],
    images: LabelledImages,
    load: Load,
    faults: FaultPlan | None,
    out: Path,
    root: Path,
    reporter: Reporter,
) -> Outcome:
    """Run the plans one after the other and, on the coded plan, the faults. Writes `records_*.csv`.

    Raises ClusterError if Ray or an application does not start. The cluster is gone afterwards.
    """
    rng = np.random.default_rng(load.seed)
    planned = poisson(load.rate, rng, n=load.queries).tolist()
    queries = images.shuffled(load.queries, rng)
    outcome = Outcome()
    with ExitStack() as stack:
        with reporter.step("starting a Ray cluster of its own"):
            ray = stack.enter_context(cluster(num_cpus=2, cwd=root))
        for plan in plans:
            model = _deploy(plan, ray, out, root, reporter)
            with reporter.load(plan.title, len(planned)) as on_done:
                phase = asyncio.run(
                    run_phase(model, planned, queries, timeout_s=_patience(plan), on_done=on_done)
                )
            write_csv(out / f"records_{plan.name}.csv", phase.records)
            outcome.phases[plan.name] = phase
            outcome.groups[plan.name] = model.groups()
            if faults is not None and plan.name == FAULTED:
                outcome.fault_phase = _fault_phase(plan, ray, model, images, load, faults, rng, reporter)
                write_csv(out / "records_faults.csv", outcome.fault_phase.records)
                outcome.groups["faults"] = model.groups()
        with reporter.step("stopping the cluster"):
            stack.close()
    return outcome


def _deploy(plan: DemoPlan, ray: Cluster, out: Path, root: Path, reporter: Reporter) -> ServedModel:
    config = out / plan.config.name
    serve_app.render_config(plan.config, config, http_port=ray.http_port, root=root)
    with reporter.step(f"deploying {plan.title} ({plan.replicas} replicas)"):
        serve_app.deploy(ray, config)
    return ServedModel.find(ray.base_url, plan.model)


def _fault_phase(
    plan: DemoPlan,
    ray: Cluster,
    model: ServedModel,
    images: LabelledImages,
    load: Load,
    faults: FaultPlan,
    rng: np.random.Generator,
    reporter: Reporter,
) -> Phase:
    planned = poisson(load.rate, rng, duration=faults.duration).tolist()
    pids = serve_app.replica_pids(serve_app.applications(ray), DEPLOYED)
    if len(pids) < 2:
        raise ClusterError(f"{plan.name}: expected two replicas of {DEPLOYED} to disturb, found {len(pids)}")
    injected = (
        Fault("stall", faults.stall_at, pids[0], faults.stall_s),
        Fault("kill", faults.kill_at, pids[1]),
    )
    with reporter.load("one replica stalls, one is killed", len(planned)) as on_done:
        return asyncio.run(
            run_phase(
                model,
                planned,
                images.shuffled(len(planned), rng),
                timeout_s=_patience(plan),
                faults=injected,
                owns=ray.owns,
                on_done=on_done,
            )
        )


def _patience(plan: DemoPlan) -> float:
    return plan.settings.deadline_ms / 1e3 + PATIENCE_S
