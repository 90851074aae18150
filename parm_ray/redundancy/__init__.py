"""Ways of spending redundancy."""

from parm_ray.redundancy.plan import PLAN_KINDS, RedundancyPlan

__all__ = ["PLAN_KINDS", "RedundancyPlan"]
