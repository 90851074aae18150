"""Which replica gets a call: pure queueing and placement, shared by served and simulated pools."""

from parm_ray.routing.pool import DISCIPLINES, Placement, PoolQueue

__all__ = ["DISCIPLINES", "Placement", "PoolQueue"]
