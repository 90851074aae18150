"""From a scenario's plan to a Serve document: the same settings as in production, with emulated times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from load_tests import second_model
from load_tests.given_cluster import APPLICATION
from parm_ray.config.loading import BUILDER
from parm_ray.config.scenario import Scenario, ScenarioPlan
from parm_ray.core import ConfigError

NUM_CPUS = 0.05
"""Of every replica: a scenario's replicas mostly sleep, and share the machine's cores."""

QUIET = {"log_level": "WARNING", "enable_access_log": False}
"""Three lines of log a query are nothing that is to be measured."""


def document_of(scenario: Scenario, plan: ScenarioPlan, root: Path) -> dict[str, Any]:
    """Return the Serve document of one plan, its application first; artefact paths are absolute, from `root`.

    Raises ConfigError naming what the scenario lacks, or the artefact that is not there.
    """
    if scenario.artifacts is None:
        raise ConfigError(f"{scenario.name}: artifacts: a real run needs the directory of the models")
    models = root / scenario.artifacts
    args: dict[str, Any] = {
        "model": _pool(scenario, models / "deployed", "deployed", plan.deployed),
        "plan": plan.plan.model_dump(mode="json", exclude_unset=True),
        "batch": scenario.batch.model_dump(mode="json"),
        "queue": scenario.queue.model_dump(mode="json"),
        "deadline_ms": plan.deadline_ms or scenario.deadline_ms,
        "ingress": {"num_cpus": NUM_CPUS},
    }
    if plan.plan.kind == "coded":
        args["parity"] = [
            _pool(scenario, models / parity_artifact(plan, row), "parity", plan.parity)
            for row in range(plan.plan.r)
        ]
    if plan.backup is not None:
        args["backup"] = _pool(scenario, models / "backup", "backup", plan.backup)
    if plan.plan.kind == "default":
        args["default_answer"] = "uniform"
    app = {"name": APPLICATION, "route_prefix": "/", "import_path": BUILDER, "args": args}
    second = [] if scenario.second_model is None else [second_model.application(scenario, root, NUM_CPUS)]
    return {"logging_config": QUIET, "applications": [app, *second]}


def parity_artifact(plan: ScenarioPlan, row: int) -> str:
    """Return the directory name that training gives a parity model."""
    code = plan.plan
    name = f"{code.encoder}_{code.decoder}_k{code.k}"
    return name if code.r == 1 else f"{name}_r{code.r}_row{row}"


def _pool(scenario: Scenario, artifact: Path, which: str, replicas: int | None) -> dict[str, Any]:
    """Return a pool's settings; without replicas of its own it lives in the deployed model's."""
    if not (artifact / "manifest.json").is_file():
        raise ConfigError(f"{artifact}: no such artefact; train it first (see train/README.md)")
    other = {"parity": scenario.parity_service, "backup": scenario.backup_service}.get(which)
    pool: dict[str, Any] = {
        "artifact": str(artifact.resolve()),
        "emulate": {
            "service": other or scenario.service,
            "slowness": scenario.slowness.model_dump(mode="json", exclude_defaults=True),
            "seed": scenario.script_seed(0, 0),
        },
    }
    if scenario.second_model is not None:
        pool["emulate"]["accelerator"] = second_model.ACCELERATOR
    return pool if replicas is None else {**pool, "replicas": replicas, "num_cpus": NUM_CPUS}
