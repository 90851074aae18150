"""A Serve request router that splits a deployment's calls by weights, its own or a control plane's.

In a Serve YAML file:

    deployments:
    - name: ...
      request_router_config:
        request_router_class: parm_ray.serve.weighted_router:WeightedRouter
        request_router_kwargs: {by: "metadata:kind", weights: {fast: 2, slow: 1}}

`config.replica_router.ReplicaRouterSettings` has the keys. Every process that calls the deployment has a
router of its own, proxies among them: it chooses from local state, and reports and looks for snapshots beside
that.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
import weakref
from collections.abc import Mapping
from functools import partial
from typing import Any

import ray
from pydantic import ValidationError
from ray.exceptions import TaskCancelledError
from ray.serve.request_router import (
    FIFOMixin,
    PendingRequest,
    ReplicaID,
    ReplicaResult,
    RequestRouter,
    RunningReplica,
)

from parm_ray.config.replica_router import ReplicaRouterSettings
from parm_ray.core import ConfigError, monotonic
from parm_ray.routing.planes.replicas import Known, ReplicaPlane
from parm_ray.serve.board import board_of
from parm_ray.serve.fleet.engines import find
from parm_ray.serve.fleet.pull import pull

log = logging.getLogger("ray.serve")


class WeightedRouter(FIFOMixin, RequestRouter):
    """Draws two replicas by weight and takes the one with less in flight for its weight.

    Calls of one request share an id, which Serve finds pending calls by; in turn (FIFOMixin) each gets a
    replica, and as no call has one of its own it makes no difference which.
    """

    def initialize_state(self, **kwargs: Any) -> None:
        """Called by Serve once, before the first replica is known.

        Bad settings end every call with a ConfigError that names the key. Raised here, Serve would note them
        in a log, call the application healthy, and let its calls wait for ever.
        """
        self._refused = ""
        try:
            self._settings = settings_of(kwargs)
        except ConfigError as error:
            log.error("%s: %s", self._deployment_id, error)
            self._settings, self._refused = ReplicaRouterSettings(), str(error)
        name = f"{self._deployment_id}-{uuid.uuid4().hex[:8]}"
        self._plane = ReplicaPlane(name, self._settings.rule(), random.Random(), monotonic())
        self._named: dict[str, RunningReplica] = {}
        # By node id, what Ray says of it; asked in the background, as nothing of a choice may wait.
        self._nodes: dict[str, Mapping[str, Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pulls = False
        self._board = board_of(self._deployment_id.app_name, self._deployment_id.name)

    # -- one call --------------------------------------------------------------------------------

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Return a replica, and another one for the case that it is full; alone each, as of two in one rank
        Serve would take the shorter queue, whatever their weights.
        """
        if pending_request is not None:
            # Without this the base class would ask again in a busy loop.
            pending_request.routing_context.should_backoff = True
            if self._refused:
                if not pending_request.future.done():
                    pending_request.future.set_exception(ConfigError(self._refused))
                # Only where some replica is named does Serve look whether the call is over.
                return [candidate_replicas]
        free = {replica.replica_id.unique_id for replica in self.select_available_replicas()}
        chosen = self._plane.choose([name for name in self._named if name not in free])
        return [[self._named[name]] for name in chosen]

    def on_send_request(self, replica_id: ReplicaID) -> None:
        """Count the call."""
        super().on_send_request(replica_id)
        self._plane.sent(replica_id.unique_id)

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """The call has ended, well or not, or was refused."""
        self._plane.done(replica_id.unique_id)

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult
    ) -> None:
        """A replica has accepted the call: from now on it is timed."""
        ended = self._plane.begin(replica_id.unique_id, monotonic())
        loop = self._event_loop
        # Called on a thread of Ray's.
        result.add_done_callback(
            lambda said: loop.call_soon_threadsafe(partial(ended, monotonic(), outcome_of(said)))
        )

    # -- in the background -----------------------------------------------------------------------

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Serve's controller has a new list."""
        super().update_replicas(replicas)
        self._know()
        if self._settings.control is not None and not self._pulls:
            self._pulls = True
            self._spawn(_pull_forever(weakref.ref(self), self._settings))

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """A call has found the replica dead before the controller did."""
        super().on_replica_actor_died(replica_id)
        self._know()

    def _know(self) -> None:
        self._named = {replica_id.unique_id: replica for replica_id, replica in self.curr_replicas.items()}
        self._plane.know({name: self._known(one) for name, one in self._named.items()}, monotonic())
        # A fleet's front ends hear from it how many replicas an engine has.
        self._board.publish({name: one.node_id or "" for name, one in self._named.items()})
        of_nodes = self._settings.by.partition(":")[0] in ("label", "resource")
        if of_nodes and any(one.node_id not in self._nodes for one in self._named.values()):
            self._spawn(self._look_at_nodes())

    def _known(self, replica: RunningReplica) -> Known:
        kind, _, key = self._settings.by.partition(":")
        node = replica.node_id or ""
        said = self._nodes.get(node)
        if kind == "metadata":
            return Known(str(replica.replica_metadata.get(key, "")))
        if kind == "label":
            return Known("" if said is None else str(said.get("Labels", {}).get(key, "")))
        if kind == "resource":
            # Until Ray has said it, all nodes are alike.
            return Known(node, None if said is None else float(said.get("Resources", {}).get(key, 0.0)))
        if kind == "zone":
            return Known(replica.availability_zone or "")
        return Known(node if kind == "node" else replica.replica_id.unique_id)

    async def _look_at_nodes(self) -> None:
        try:
            nodes = await asyncio.to_thread(ray.nodes)
        except Exception as error:  # Weights that are not known yet stay as they are.
            log.warning("%s: nothing is known of its nodes: %s", self._deployment_id, str(error)[:200])
            return
        found = {node["NodeID"]: node for node in nodes}
        # One that Ray does not name is not asked for again and again.
        self._nodes = {one.node_id or "": {} for one in self._named.values()} | found
        self._know()

    def _spawn(self, coroutine: Any) -> None:
        task = self._event_loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pull(self, control: Any) -> None:
        plane = self._plane
        plane.refresh(monotonic())
        age_s = plane.age_s(monotonic())
        newer = await pull(control, plane.report(monotonic()), plane.snapshot, age_s)
        if newer is not None:
            plane.install(newer, monotonic())


async def _pull_forever(router: weakref.ref[WeightedRouter], settings: ReplicaRouterSettings) -> None:
    """Until the router is gone: Serve says nothing when a handle is."""
    control, heard, name = None, True, settings.control or ""
    while True:
        await asyncio.sleep(settings.pull_ms / 1e3 * random.uniform(0.9, 1.1))
        if (one := router()) is None:
            return
        try:
            control = control or await find(name)
            if control is None:
                raise ConnectionError(f"no application {name} yet")
            await one._pull(control)
            heard = True
        except Exception as error:  # Whatever is wrong with the control plane, calls go on.
            if heard:
                log.warning("no word from the control plane, weights stay as they are: %s", str(error)[-200:])
            # The next one may be another deployment.
            heard, control = False, None
        del one


def settings_of(kwargs: Mapping[str, Any]) -> ReplicaRouterSettings:
    """Return typed settings. Raises ConfigError naming the key that is wrong."""
    try:
        return ReplicaRouterSettings.model_validate(dict(kwargs))
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(("request_router_kwargs", *map(str, first["loc"])))
        raise ConfigError(f"{at}: {first['msg']}, got {str(first['input'])[:100]}") from None


def outcome_of(said: Any) -> bool | None:
    """Return how a call ended, by what Ray says when it has: well, badly, or (None) it was withdrawn.

    Calls by value say nothing of what the replica raised: those count as well.
    """
    if isinstance(said, (TaskCancelledError, asyncio.CancelledError)):
        return None
    cancelled = getattr(said, "cancelled", None)
    if callable(cancelled) and cancelled():
        return None
    return not isinstance(said, BaseException)
