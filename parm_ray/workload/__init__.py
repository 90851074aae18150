"""Workloads: when queries are planned to arrive, how long calls take, which are slow. numpy only."""

from parm_ray.workload.arrivals import bursts, constant, poisson
from parm_ray.workload.scripts import (
    CallsAndEpisodes,
    HeavyTailedCalls,
    IndependentCalls,
    SlowEpisodes,
    SlownessScript,
)
from parm_ray.workload.service_time import ServiceTime, SlowCalls, from_mapping
from parm_ray.workload.traces import from_counts, replayed, since_first

__all__ = [
    "CallsAndEpisodes",
    "HeavyTailedCalls",
    "IndependentCalls",
    "ServiceTime",
    "SlowCalls",
    "SlowEpisodes",
    "SlownessScript",
    "bursts",
    "constant",
    "from_counts",
    "from_mapping",
    "poisson",
    "replayed",
    "since_first",
]
