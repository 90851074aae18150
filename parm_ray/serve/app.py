"""The application builder that Serve YAML files name: `import_path: parm_ray.serve.app:build`."""

# No `from __future__ import annotations` here: Serve reads the builder's annotation as it stands,
# and hands over an unchecked dict when that is a string.

import math
from typing import Any, cast

from ray import serve
from ray.serve import Application
from ray.serve.config import RequestRouterConfig

from parm_ray.config import PoolSettings, Settings
from parm_ray.core import ConfigError
from parm_ray.models.manifest import Manifest, load_manifest
from parm_ray.serve.adviser import Adviser
from parm_ray.serve.deployments import BackupModel, DeployedModel, ParityModel, SharedModel
from parm_ray.serve.ingress import Ingress

ROUTER = "parm_ray.serve.request_router:PlacedRouter"

# Deployment names are what YAML files and dashboards refer to; they do not change.
INGRESS, DEPLOYED, PARITY, BACKUP = "Ingress", "DeployedModel", "ParityModel", "BackupModel"
ADVISER = "Adviser"


def build(settings: Settings) -> Application:
    """Return the Serve application for typed settings.

    Raises ConfigError when an artefact is missing, or a parity model does not fit the plan or the
    deployed model.
    """
    manifest, deployed, parities, backup = pools(settings)
    placed = RequestRouterConfig(request_router_class=cast(Any, ROUTER))
    usual = RequestRouterConfig()
    ingress = serve.deployment(
        name=INGRESS,
        num_replicas=settings.ingress.replicas,
        max_ongoing_requests=settings.ingress.max_ongoing_requests,
        ray_actor_options={"num_cpus": settings.ingress.num_cpus},
        graceful_shutdown_wait_loop_s=0.5,
        request_router_config=placed if settings.ingress.engine else usual,
    )(Ingress)
    return ingress.bind(settings, manifest, deployed, backup, _adviser(settings), *parities)


def _adviser(settings: Settings) -> Application | None:
    """The deployment that changes the plan, where the settings want one."""
    auto = settings.auto
    if auto is None:
        return None
    options = {"num_cpus": auto.num_cpus}
    return serve.deployment(name=ADVISER, ray_actor_options=options)(Adviser).bind(settings, auto)


def pools(
    settings: Settings,
) -> tuple[Manifest, Application, list[Application], Application | None]:
    """The deployed model's manifest and the deployments behind an ingress: deployed, parities, backup.

    Where the pool is shared the parity models are in the deployed model's replicas, and have none.
    """
    manifest = check_artifacts(settings)
    backup = None
    if settings.backup is not None:
        backup = _pool(BackupModel, BACKUP, "backup", settings.backup, settings)
    if settings.plan.pool == "shared":
        shared = _pool(SharedModel, DEPLOYED, "deployed", settings.model, settings, settings.parity)
        return manifest, shared, [], backup
    deployed = _pool(DeployedModel, DEPLOYED, "deployed", settings.model, settings)
    parities = [
        _pool(ParityModel, PARITY if row == 0 else f"{PARITY}{row + 1}", f"parity{row}", pool, settings)
        for row, pool in enumerate(settings.parity)
    ]
    return manifest, deployed, parities, backup


def check_artifacts(settings: Settings) -> Manifest:
    """Read the artefacts' manifests and hold them against the settings; return the deployed model's."""
    manifest = load_manifest(settings.model.artifact)
    check_default(settings, manifest)
    for row, pool in enumerate(settings.parity):
        check_parity(settings, manifest, load_manifest(pool.artifact), row)
    if settings.backup is not None:
        check_tensors("backup.artifact", manifest, load_manifest(settings.backup.artifact))
    return manifest


def _pool(
    replica: type, name: str, short: str, pool: PoolSettings, settings: Settings, *more: object
) -> Application:
    """One deployment of model replicas, reached through the placing router.

    short: the pool's name in statistics and scripts. more: what its replicas also take.
    """
    deployment = serve.deployment(
        name=name,
        num_replicas=pool.replicas,
        # Slots are kept by each ingress's queue; this only has to be out of its way.
        max_ongoing_requests=max(100, pool.slots_per_replica * settings.ingress.replicas),
        max_replicas_per_node=cast(Any, pool.max_replicas_per_node),
        health_check_period_s=pool.health_check_period_s,
        health_check_timeout_s=pool.health_check_timeout_s,
        graceful_shutdown_wait_loop_s=0.2,
        graceful_shutdown_timeout_s=5,
        request_router_config=RequestRouterConfig(request_router_class=cast(Any, ROUTER)),
        ray_actor_options={
            "num_cpus": pool.num_cpus,
            "num_gpus": pool.num_gpus,
            "resources": dict(pool.resources),
        },
    )(replica)
    return deployment.bind(pool, short, *more)


def check_default(settings: Settings, manifest: Manifest) -> None:
    """The default answer must fit the model's output."""
    if isinstance(settings.default_answer, tuple):
        wanted = math.prod(manifest.output.shape)
        if len(settings.default_answer) != wanted:
            raise ConfigError(
                f"default_answer: expected {wanted} values (output shape {manifest.output.shape}),"
                f" got {len(settings.default_answer)}"
            )


def check_parity(settings: Settings, deployed: Manifest, parity: Manifest, row: int) -> None:
    """A parity model must be made for this plan's code, this row, and this deployed model's tensors."""
    path, plan, code = f"parity[{row}].artifact", settings.plan, parity.code
    if code is None:
        raise ConfigError(f"{path}: {settings.parity[row].artifact} is not a parity model (no `code`)")
    wanted = {"encoder": plan.encoder, "decoder": plan.decoder, "k": plan.k, "r": plan.r, "row": row}
    for field, value in wanted.items():
        if getattr(code, field) != value:
            raise ConfigError(
                f"{path}: code.{field}: expected {value!r} (plan), got {getattr(code, field)!r}"
            )
    check_tensors(path, deployed, parity)


def check_tensors(path: str, deployed: Manifest, other: Manifest) -> None:
    """A model that stands in for the deployed one must take and give the same tensors."""
    for part in ("input", "output"):
        ours, theirs = getattr(deployed, part), getattr(other, part)
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
            raise ConfigError(
                f"{path}: {part}: expected {ours.dtype}{list(ours.shape)} like the deployed model's,"
                f" got {theirs.dtype}{list(theirs.shape)}"
            )
