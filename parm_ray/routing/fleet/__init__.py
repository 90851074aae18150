"""Which engines get how much of whose traffic: the global plan of a fleet. Pure: no I/O, no clock."""

from parm_ray.routing.fleet.latency import MG1, MM1, EngineLatency, MGc, Profile
from parm_ray.routing.fleet.problem import Demand, Engine, Fleet
from parm_ray.routing.fleet.routing import Routing, baselines
from parm_ray.routing.fleet.solve import Infeasible, Solution, network_only, solve

__all__ = [
    "MG1",
    "MM1",
    "Demand",
    "Engine",
    "EngineLatency",
    "Fleet",
    "Infeasible",
    "MGc",
    "Profile",
    "Routing",
    "Solution",
    "baselines",
    "network_only",
    "solve",
]
