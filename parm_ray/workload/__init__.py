"""Workloads: when queries are planned to arrive, and how long calls take. numpy only."""

from parm_ray.workload.arrivals import bursts, constant, poisson
from parm_ray.workload.service_time import SlowCalls

__all__ = ["SlowCalls", "bursts", "constant", "poisson"]
