"""How a batch reaches a replica: one handle call, by value, owned by no request."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

Array = NDArray[np.generic]

# Serve's replica gRPC server takes messages of 4 MiB; above this a batch goes through the object store.
BY_VALUE_BYTES = 3_500_000


class ReplicaGone(Exception):
    """The replica died or cannot be reached; another one may answer the same batch."""


class Transport(Protocol):
    """Sends one batch to one replica."""

    async def call(self, replica: str, batch: Array) -> Array:
        """Return the outputs. Raises ReplicaGone, or whatever the model raised."""

    def forget(self, replica: str) -> None:
        """Drop what is kept for a replica that is gone."""


class HandleTransport:
    """Calls `method`(batch, *arguments) of a deployment's replicas through its Serve handle.

    One `options()` copy per replica is kept: `session_id` is the router's placement hint. Calls go
    by value over gRPC unless `batch_bytes` (the largest batch) is too large for it.
    """

    def __init__(self, handle: DeploymentHandle, method: str, batch_bytes: int, *arguments: object) -> None:
        # The router shares the ingress's loop: a hop to another thread and back costs more than routing.
        if not handle.is_initialized:
            handle._init(_run_router_in_separate_loop=False)
        self._handle = handle.options(
            method_name=method,
            _by_reference=batch_bytes > BY_VALUE_BYTES,
            request_serialization="pickle",
            response_serialization="pickle",
        )
        self._arguments = arguments
        self._placed: dict[str, DeploymentHandle] = {}

    def forget(self, replica: str) -> None:
        """Drop what is kept for a replica that is gone."""
        self._placed.pop(replica, None)

    async def call(self, replica: str, batch: Array) -> Array:
        """Return the replica's outputs for `batch`. Raises ReplicaGone or the model's own error."""
        placed = self._placed.get(replica)
        if placed is None:
            placed = self._placed[replica] = self._handle.options(session_id=replica)
        try:
            return await placed.remote(batch, *self._arguments)
        except RayTaskError:
            raise
        except (RayActorError, RayServeException, ConnectionError) as error:
            raise ReplicaGone(f"{type(error).__name__}: {error}") from error
