"""Wires one ingress: settings and handles in, a driver with its pools out. Reads top to bottom."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Hashable, Sequence

import numpy as np
from ray.serve.handle import DeploymentHandle

from parm_ray.codes import Code
from parm_ray.config import PoolSettings, Settings
from parm_ray.core import Clock, Observer
from parm_ray.groups import GroupMachine
from parm_ray.groups.lanes import BACKUP, DEPLOYED, SHADOW, Lane
from parm_ray.models.loading import fill_of
from parm_ray.models.manifest import Manifest
from parm_ray.routing import make_queue
from parm_ray.routing.room import pair, room, spare
from parm_ray.serve.board import board_of
from parm_ray.serve.driver import Driver
from parm_ray.serve.losses import OneLossPerGroup
from parm_ray.serve.pool import Pool
from parm_ray.serve.recorder import QueryRecorder
from parm_ray.serve.shadow import Shadows
from parm_ray.serve.trace import GroupTrace
from parm_ray.serve.transport import HandleTransport


def assemble(
    settings: Settings,
    manifest: Manifest,
    code: Code | None,
    deployed: DeploymentHandle,
    parities: Sequence[DeploymentHandle],
    backup: DeploymentHandle | None,
    observer: Observer,
    clock: Clock,
    recorder: QueryRecorder | None = None,
    shadows: Shadows | None = None,
) -> Driver:
    """Return a driver whose pools follow their deployments' replicas. Call it on the ingress's loop."""
    plan = settings.redundancy_plan()
    machine = GroupMachine(
        plan,
        code,
        batch_size=settings.batch.max_size,
        batch_wait_s=settings.batch.wait_ms / 1e3,
        grant=lambda: room(driver.parity_queues(), settings.plan.max_queued_parity),
        spare=lambda share: spare(driver.parity_queues(), share),
        idle=lambda share: pair(driver.pools[DEPLOYED].queue, share),
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
    query_bytes = (
        settings.batch.max_size * math.prod(manifest.input.shape) * manifest.input.numpy_dtype.itemsize
    )

    def transport(handle: DeploymentHandle, lane: Lane, among_others: bool) -> HandleTransport:
        if lane < 0:
            return HandleTransport(handle, "predict", query_bytes)
        if among_others:
            return HandleTransport(handle, "predict_parity", 4 * query_bytes, lane)
        return HandleTransport(handle, "predict", 4 * query_bytes)

    def add(name: str, handle: DeploymentHandle, pool: PoolSettings, lanes: Collection[Lane]) -> None:
        """One deployment, whose replicas answer the calls of these lanes."""
        first = DEPLOYED in lanes
        added = Pool(
            name,
            make_queue(settings.queue.discipline, pool.slots_per_replica, reserve=plan.idle_reserve),
            {lane: transport(handle, lane, len(lanes) > 1) for lane in lanes},
            driver.losses.ended if first and driver.losses is not None else driver.ended,
            clock,
            low=[lane for lane in lanes if lane >= 0 and first],
            on_start=driver.started if first else None,
            other_nodes=lambda group: _nodes_elsewhere(driver, name, group),
            shadows=shadows if first else None,
        )
        driver.pools.update(dict.fromkeys(lanes, added))
        board_of(handle.app_name, handle.deployment_name).subscribe(added.set_replicas)

    rows = range(len(settings.parity)) if settings.plan.pool == "shared" else ()
    more = (SHADOW,) if shadows is not None else ()
    add("deployed", deployed, settings.model, (DEPLOYED, *rows, *more))
    for row, handle in enumerate(parities):
        add(f"parity{row}", handle, settings.parity[row], (row,))
    if backup is not None and settings.backup is not None:
        add("backup", backup, settings.backup, (BACKUP,))
    return driver


def _nodes_elsewhere(driver: Driver, name: str, group: Hashable) -> Collection[str]:
    """Nodes where the group's members run in pools other than that one."""
    return {
        node for pool in driver.pools.values() if pool.name != name for node in pool.queue.nodes_of(group)
    }


def default_of(settings: Settings, manifest: Manifest) -> np.ndarray | None:
    """The default answer in the model's output shape, None if there is none."""
    if settings.default_answer is None:
        return None
    spec = manifest.output
    if settings.default_answer == "uniform":
        return np.full(spec.shape, 1.0 / math.prod(spec.shape), spec.numpy_dtype)
    return np.asarray(settings.default_answer, spec.numpy_dtype).reshape(spec.shape)
