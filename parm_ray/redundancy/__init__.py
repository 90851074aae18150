"""The redundancy plan that the server carries out, the hedge delay, and the budget."""

from parm_ray.redundancy.budget import Budget
from parm_ray.redundancy.hedge import DELAY_RULES, DelayRule, Hedge, Hedger, best_delay
from parm_ray.redundancy.plan import PLAN_KINDS, Keep, PlanKind, RedundancyPlan

__all__ = [
    "DELAY_RULES",
    "PLAN_KINDS",
    "Budget",
    "DelayRule",
    "Hedge",
    "Hedger",
    "Keep",
    "PlanKind",
    "RedundancyPlan",
    "best_delay",
]
