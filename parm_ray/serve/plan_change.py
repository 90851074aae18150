"""Which plans a running server can change to: those whose pools and code are there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from parm_ray.core import InvalidInput
from parm_ray.groups.lanes import BACKUP, Lane, lane_name
from parm_ray.groups.terms import Recoverer, unfit
from parm_ray.redundancy import RedundancyPlan


def served(
    plan: RedundancyPlan, before: RedundancyPlan, code: Recoverer | None, lanes: Collection[Lane]
) -> RedundancyPlan:
    """Return the plan as this server can carry it out in place of `before`.

    lanes: those that have a pool. Deadline, default answer and retries after crashes are the server's, not
    the plan's: they stay. Raises InvalidInput, naming the field, for a plan that needs a code, parity pools
    or a backup pool that are not there.
    """
    if why := unfit(plan, code):
        field, _, rest = why.partition(": expected ")
        expected, _, got = rest.rpartition(", got ")
        raise InvalidInput(f"plan.{field}", expected, got)
    wanted: list[Lane] = [*range(plan.r), *([BACKUP] if plan.backup else [])]
    for lane in wanted:
        if lane not in lanes:
            expected = f"a plan without a {lane_name(lane)} pool, which this server does not have"
            raise InvalidInput("plan.backup" if lane == BACKUP else "plan.r", expected, plan.name)
    return replace(
        plan,
        deadline_s=before.deadline_s,
        has_default=before.has_default,
        crash_retries=before.crash_retries,
    )
