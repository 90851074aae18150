"""Fleets in virtual time."""

from parm_ray.sim.fleet.fluid import FluidInterval, FluidResult, simulate_fluid
from parm_ray.sim.fleet.fluid_report import fluid_phases, fluid_series
from parm_ray.sim.fleet.incidents import Daily, Incidents
from parm_ray.sim.fleet.report import phases, series
from parm_ray.sim.fleet.run import FleetResult, simulate_fleet
from parm_ray.sim.fleet.setting import Change, FleetRun
from parm_ray.sim.fleet.static import simulate_routing

__all__ = [
    "Change",
    "Daily",
    "FleetResult",
    "FleetRun",
    "FluidInterval",
    "FluidResult",
    "Incidents",
    "fluid_phases",
    "fluid_series",
    "phases",
    "series",
    "simulate_fleet",
    "simulate_fluid",
    "simulate_routing",
]
