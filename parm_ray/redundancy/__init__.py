"""The redundancy plan that the server carries out, the hedge delay, and the budget."""

from parm_ray.redundancy.budget import Budget
from parm_ray.redundancy.hedge import DELAY_RULES, DelayRule, Hedge, Hedger, best_delay
from parm_ray.redundancy.plan import PLAN_KINDS, Keep, PlanKind, RedundancyPlan
from parm_ray.redundancy.shadow import MAX_SHARE, Shadow, ShadowDraw

__all__ = [
    "DELAY_RULES",
    "MAX_SHARE",
    "PLAN_KINDS",
    "Budget",
    "DelayRule",
    "Hedge",
    "Hedger",
    "Keep",
    "PlanKind",
    "RedundancyPlan",
    "Shadow",
    "ShadowDraw",
    "best_delay",
]
