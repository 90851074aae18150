"""Fleets in virtual time."""

from parm_ray.sim.fleet.report import phases, series
from parm_ray.sim.fleet.run import FleetResult, simulate_fleet
from parm_ray.sim.fleet.setting import Change, FleetRun
from parm_ray.sim.fleet.static import simulate_routing

__all__ = [
    "Change",
    "FleetResult",
    "FleetRun",
    "phases",
    "series",
    "simulate_fleet",
    "simulate_routing",
]
