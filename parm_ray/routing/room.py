"""Whether the parity queues have room for another group, and whether they have room to spare."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from parm_ray.routing.pool import CallQueue

Parity = tuple[CallQueue[Any], bool]
"""A queue that takes parity queries, and whether they are of low priority there."""


def room(parities: Collection[Parity], max_queued: int) -> bool:
    """Whether every one has replicas, and fewer than `max_queued` parity queries waiting."""
    return all(
        queue.replicas > 0 and (queue.queued_low if low else queue.queued) < max_queued
        for queue, low in parities
    )


def idle(queue: CallQueue[Any], share: float | None) -> bool:
    """Whether at least that share 0..1 of the queue's slots is idle; None = never."""
    return share is not None and queue.replicas > 0 and queue.idle >= share * queue.replicas * queue.slots


def pair(queue: CallQueue[Any], share: float | None) -> bool:
    """Whether that share is idle, and there is room for a call and its copy at once."""
    return idle(queue, share) and queue.idle >= 2


def spare(parities: Collection[Parity], share: float | None) -> bool:
    """Whether that share 0..1 of the slots of every one is idle; None = never."""
    return bool(parities) and all(idle(queue, share) for queue, _ in parities)
