"""The two planes of a fleet: what decides for all, what picks for one request. Pure: time is an argument."""

from parm_ray.routing.planes.admission import AdmissionRule
from parm_ray.routing.planes.control import POLICIES, ControlPlane, ControlRule
from parm_ray.routing.planes.front_end import FrontEnd, FrontEndRule, NotEligible
from parm_ray.routing.planes.inputs import Ages
from parm_ray.routing.planes.penalty import PenaltyRule
from parm_ray.routing.planes.retry_budget import RetryBudget, RetryRule
from parm_ray.routing.planes.signals import Report, Seen

__all__ = [
    "POLICIES",
    "AdmissionRule",
    "Ages",
    "ControlPlane",
    "ControlRule",
    "FrontEnd",
    "FrontEndRule",
    "NotEligible",
    "PenaltyRule",
    "Report",
    "RetryBudget",
    "RetryRule",
    "Seen",
]
