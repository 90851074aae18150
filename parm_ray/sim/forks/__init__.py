"""Jobs forked to several servers, in virtual time: what closed forms are checked against, and go beyond."""

from parm_ray.sim.forks.simulate import ForkRuns, simulate_forks
from parm_ray.sim.forks.strategy import CANCELS, CHOICES, HEDGE_FROM, Cancel, Choice, Forking, HedgeFrom

__all__ = [
    "CANCELS",
    "CHOICES",
    "HEDGE_FROM",
    "Cancel",
    "Choice",
    "ForkRuns",
    "Forking",
    "HedgeFrom",
    "simulate_forks",
]
