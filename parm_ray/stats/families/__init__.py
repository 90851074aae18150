"""Families of service times: tails, moments, order statistics, draws."""

from parm_ray.stats.families.base import LOG_TAILS, Family, LogTail
from parm_ray.stats.families.discrete import Bimodal, Deterministic, Discrete, Empirical
from parm_ray.stats.families.exponentials import Exponential, Hyperexponential, ShiftedExponential
from parm_ray.stats.families.powers import Gamma, LogNormal, Pareto, Uniform, Weibull

__all__ = [
    "LOG_TAILS",
    "Bimodal",
    "Deterministic",
    "Discrete",
    "Empirical",
    "Exponential",
    "Family",
    "Gamma",
    "Hyperexponential",
    "LogNormal",
    "LogTail",
    "Pareto",
    "ShiftedExponential",
    "Uniform",
    "Weibull",
]
