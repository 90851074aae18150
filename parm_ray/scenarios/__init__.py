"""Scenarios carried out in the simulator: from settings to simulated cells to rows."""

from parm_ray.scenarios.cells import SimulatedCell, simulate_cell
from parm_ray.scenarios.rows import row_of
from parm_ray.scenarios.study import study
from parm_ray.sim.processes import over_processes

__all__ = ["SimulatedCell", "over_processes", "row_of", "simulate_cell", "study"]
