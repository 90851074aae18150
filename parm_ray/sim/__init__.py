"""The group machine, the queues and the budgets in virtual time. No Ray, no arrays of queries."""

from parm_ray.sim.driver import OUTCOMES
from parm_ray.sim.pool import PoolSpec, Service
from parm_ray.sim.simulate import Costs, Outage, Simulated, simulate

__all__ = ["OUTCOMES", "Costs", "Outage", "PoolSpec", "Service", "Simulated", "simulate"]
