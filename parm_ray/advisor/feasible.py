"""Whether a plan keeps the limits, by what its runs show."""

from __future__ import annotations

from parm_ray.advisor.measured import Measured
from parm_ray.advisor.workload import Limits, Workload

# From this load on a queue that a run of finite length shows is taken to be one that grows for ever.
GROWS = 0.98

# Extra work may exceed its limit by so much in a simulation: chance.
CHANCE = 0.02


def refusal(one: Measured, none: Measured, workload: Workload, limits: Limits) -> str:
    """Why a plan is beyond the limits; "" = it is not. none: no redundancy in the same runs."""
    if one.candidate.plan.kind == "none":
        # There is nothing less; whether it is enough is a warning.
        return ""
    load = one.load(none, workload.utilisation)
    if load >= limits.load:
        return f"keeps the deployed replicas busy {load:.0%} of the time, the limit is {limits.load:.0%}"
    if (extra := one.extra_work(none)) > limits.extra_work + CHANCE:
        return f"takes {extra:.0%} more work, the limit is {limits.extra_work:.0%}"
    loss = accuracy_loss(one)
    if limits.accuracy_loss is not None and one.candidate.offer is not None:
        if loss is None:
            return "how much accuracy its reconstructions cost is not known, and there is a limit"
        if loss > limits.accuracy_loss:
            return f"costs {loss:.2%} of the right answers, the limit is {limits.accuracy_loss:.2%}"
    return ""


def accuracy_loss(one: Measured) -> float | None:
    """Share of all answers that are wrong because they were reconstructed: f x (A_d - A_a)."""
    offer = one.candidate.offer
    if offer is None:
        return 0.0
    return None if offer.accuracy_loss is None else one.reconstructed * offer.accuracy_loss
