"""Which replica gets the next call. Pure: no I/O, time is an argument."""

from parm_ray.routing.assigned import AssignedQueue, make_queue
from parm_ray.routing.pool import CallQueue, Placement, SingleQueue, UsedNodes, nowhere

__all__ = [
    "AssignedQueue",
    "CallQueue",
    "Placement",
    "SingleQueue",
    "UsedNodes",
    "make_queue",
    "nowhere",
]
