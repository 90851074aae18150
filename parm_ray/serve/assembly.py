"""Wires one ingress: settings and handles in, a driver with its pools out. Reads top to bottom."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence

import numpy as np
from ray.serve.handle import DeploymentHandle

from parm_ray.codes import Code
from parm_ray.config import PoolSettings, Settings
from parm_ray.core import Clock, GroupId, Observer
from parm_ray.groups import GroupMachine
from parm_ray.models.loading import fill_of
from parm_ray.models.manifest import Manifest
from parm_ray.routing import PoolQueue
from parm_ray.serve.board import board_of
from parm_ray.serve.driver import Driver
from parm_ray.serve.losses import OneLossPerGroup
from parm_ray.serve.pool import Pool
from parm_ray.serve.recorder import QueryRecorder
from parm_ray.serve.trace import GroupTrace
from parm_ray.serve.transport import HandleTransport


def assemble(
    settings: Settings,
    manifest: Manifest,
    code: Code | None,
    deployed: DeploymentHandle,
    parities: Sequence[DeploymentHandle],
    observer: Observer,
    clock: Clock,
    recorder: QueryRecorder | None = None,
) -> Driver:
    """Return a driver whose pools follow their deployments' replicas. Call it on the ingress's loop."""
    plan = settings.redundancy_plan()
    machine = GroupMachine(
        plan,
        code,
        batch_size=settings.batch.max_size,
        batch_wait_s=settings.batch.wait_ms / 1e3,
        grant=lambda: all(
            pool.queue.replicas > 0 and pool.queue.queued < settings.plan.max_queued_parity
            for row, pool in driver.pools.items()
            if row >= 0
        ),
    )
    driver = Driver(
        machine,
        code,
        observer=observer,
        clock=clock,
        max_queued=settings.queue.max_queued,
        fill=fill_of(manifest),
        default=default_of(settings, manifest),
        trace=GroupTrace(settings.ingress.trace_groups) if settings.ingress.trace_groups else None,
        recorder=recorder,
    )
    if settings.model.emulate.lose != "none":
        logging.getLogger("ray.serve").warning("model.emulate.lose: one answer of every group is kept back")
        driver.losses = OneLossPerGroup(settings.plan.k, driver.ended, machine.waits)
    # A parity row of integers may be wider than a query; four times is the widest of all registered defaults.
    query_bytes = math.prod(manifest.input.shape) * manifest.input.numpy_dtype.itemsize
    handles: Mapping[int, tuple[DeploymentHandle, PoolSettings, int]] = {
        -1: (deployed, settings.model, 1),
        **{row: (handle, settings.parity[row], 4) for row, handle in enumerate(parities)},
    }
    for row, (handle, pool_settings, widening) in handles.items():
        pool = Pool(
            "deployed" if row < 0 else f"parity{row}",
            PoolQueue(settings.queue.discipline, pool_settings.slots_per_replica),
            HandleTransport(handle, "predict", settings.batch.max_size * query_bytes * widening),
            driver.losses.ended if row < 0 and driver.losses is not None else driver.ended,
            clock,
            lambda group, row=row: _nodes_elsewhere(driver, row, group),  # type: ignore[misc]
        )
        driver.pools[row] = pool
        board_of(handle.app_name, handle.deployment_name).subscribe(pool.set_replicas)
    return driver


def _nodes_elsewhere(driver: Driver, row: int, group: GroupId) -> set[str]:
    """Nodes where the group's members run in pools other than `row`'s."""
    return {n for r, pool in driver.pools.items() if r != row for n in pool.queue.nodes_of(group)}


def default_of(settings: Settings, manifest: Manifest) -> np.ndarray | None:
    """The default answer in the model's output shape, None if there is none."""
    if settings.default_answer is None:
        return None
    spec = manifest.output
    if settings.default_answer == "uniform":
        return np.full(spec.shape, 1.0 / math.prod(spec.shape), spec.numpy_dtype)
    return np.asarray(settings.default_answer, spec.numpy_dtype).reshape(spec.shape)
