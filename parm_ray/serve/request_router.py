"""A Serve request router that sends each call where the pool has placed it.

The pool (parm_ray/routing) keeps the queue and knows every outstanding call, so a call arrives here
only when its replica has a free slot: no probing, no accept/reject handshake, no back-off.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from parm_ray.serve.board import board_of


class PlacedRouter(RequestRouter):
    """Obeys the replica named in the call's `session_id`; else takes the least loaded it knows of."""

    def initialize_state(self, **kwargs: Any) -> None:
        """Called by Serve once, before the first replica is known."""
        self._outstanding: Counter[ReplicaID] = Counter()
        self._board = board_of(self._deployment_id.app_name, self._deployment_id.name)

    @property
    def supports_rejection_protocol(self) -> bool:
        """The pool guarantees capacity, so calls are sent without asking first."""
        return False

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Return the placed replica alone, or the least loaded one if it is gone."""
        wanted = ""
        if pending_request is not None:
            # Without this the base class would ask again in a busy loop.
            pending_request.routing_context.should_backoff = True
            wanted = pending_request.metadata.session_id
        if not candidate_replicas:
            return []
        chosen = next((r for r in candidate_replicas if r.replica_id.unique_id == wanted), None)
        if chosen is None:
            chosen = min(candidate_replicas, key=lambda r: self._outstanding[r.replica_id])
        # A fresh entry below capacity is what keeps the base class from probing the replica first.
        self.replica_queue_len_cache.update(chosen.replica_id, 0)
        return [[chosen]]

    def on_send_request(self, replica_id: ReplicaID) -> None:
        """Count the call."""
        self._outstanding[replica_id] += 1

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """The call has ended, well or not."""
        self._outstanding[replica_id] -= 1
        if self._outstanding[replica_id] <= 0:
            del self._outstanding[replica_id]

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Serve's controller has a new list."""
        super().update_replicas(replicas)
        self._publish()

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """A call has found the replica dead before the controller did."""
        super().on_replica_actor_died(replica_id)
        self._publish()

    def _publish(self) -> None:
        self._board.publish({r.unique_id: replica.node_id or "" for r, replica in self.curr_replicas.items()})
