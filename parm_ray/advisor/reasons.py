"""Why plans stand where they do, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from parm_ray.advisor.advice import Ranked
from parm_ray.advisor.candidates import Candidate
from parm_ray.advisor.evidence import Evidence
from parm_ray.advisor.measured import Measured, behind
from parm_ray.advisor.objective import Objective
from parm_ray.advisor.workload import Limits, Workload
from parm_ray.stats.copies import Paired, SizeSlowdown
from parm_ray.stats.trust import LEAST


def too_costly(plan: Candidate, workload: Workload, limits: Limits) -> str:
    """Return why a plan is refused for what it costs alone; "" if that is not known, or not too much."""
    if plan.cost_s is None:
        return ""
    extra = plan.cost_s / workload.service.mean - 1
    if extra > limits.extra_work + 0.05:
        return f"takes {extra:.0%} more work, the limit is {limits.extra_work:.0%}"
    # Copies cost least where they start together: at zero load; hedges are cut by their budget.
    busy = workload.rate * plan.cost_s / workload.replicas
    if plan.plan.kind == "replicated" and busy >= 1.2:
        return f"needs {busy:.0%} of the replicas' time"
    return ""


def with_reason(
    ranked: Ranked, one: Measured, none: Measured, best: Measured, objective: Objective, known: Evidence
) -> Ranked:
    """Return it with its reason."""
    words = _reason(ranked, one, none, best, objective)
    pairs = known.pairs
    if one.candidate.plan.copies > 1 and pairs is not None and not pairs.independent:
        words += (
            f" (pairs: two copies cost {pairs.cost_ratio:.2f} times one call, not the "
            f"{pairs.independent_ratio:.2f} that single times promise)"
        )
    return replace(ranked, reason=words)


def _reason(ranked: Ranked, one: Measured, none: Measured, best: Measured, objective: Objective) -> str:
    if ranked.refused:
        return ranked.refused
    if one is best:
        if one is none:
            return f"no plan makes {objective} smaller by more than chance and what is worth its trouble"
        change = ranked.objective_s / none.of(objective) - 1
        within = ""
        if ranked.over_none is not None:
            low, high = ranked.over_none
            sure = "" if high < 1 or low > 1 else ", which may be chance"
            within = f" ({low:.2f} to {high:.2f} of it{sure})"
        side = "below" if change < 0 else "above"
        return (
            f"{objective} {abs(change):.0%} {side} no redundancy's{within} for {ranked.extra_work:+.0%} work"
        )
    more_than_best = behind(one, best, objective)
    if len(one.trials) < len(best.trials):
        near = objective.coarse(ranked.queries)
        return f"out after {ranked.queries} queries: {near} {more_than_best:+.0%} of the advised plan's"
    if more_than_best <= 0.02:
        more = "more parts" if one.candidate.complexity > best.candidate.complexity else "more work"
        return f"as good ({objective} {more_than_best:+.1%}), with {more}"
    return f"{objective} {more_than_best:+.0%} of the advised plan's"


def warnings(
    workload: Workload,
    known: Evidence,
    best: Ranked,
    pairs: NDArray[np.float64] | None,
    asked: Objective,
    objective: Objective,
) -> Iterator[str]:
    """Yield what the advice takes for granted, and what it could not know.

    pairs: that were given. asked: the objective that was wanted, where the pairs could not tell it.
    """
    if asked != objective:
        yield f"{asked} cannot be told from so few pairs: the objective is {objective}"
    if pairs is not None and known.pairs is None:
        yield f"{len(pairs)} pairs are too few to say whether copies are independent: {LEAST} are needed"
    if best.load >= 0.95:
        yield (
            f"the advised plan keeps the replicas busy {best.load:.0%} of the time: "
            "there is no stable plan worth the name, more replicas are needed"
        )
    x = workload.service
    copies = best.plan.sends_copies
    if known.pairs is not None and not known.pairs.independent:
        yield (
            f"copies of a query are not independent (p = {known.pairs.p:.3f}): two cost "
            f"{known.pairs.cost_ratio:.2f} times one call, single times would say "
            f"{known.pairs.independent_ratio:.2f}; the measured pairs were used"
        )
    elif copies and known.pairs is None and not isinstance(x, Paired | SizeSlowdown):
        yield (
            "copies are taken to be independent of the first call: if long calls are long queries, they help "
            "less; measure pairs (shadow.share) before relying on it"
        )
    if known.heavy:
        yield f"means are not to be trusted: {known.heavy}"
    if best.candidate.offer is not None and best.accuracy_loss is None:
        yield (
            f"{best.reconstructed:.1%} of the answers would be the parity model's: how much accuracy that "
            "costs was not said (--parity K:SLOWDOWN:LOSS)"
        )
    if workload.losers.cancel_s is None and best.plan.copies > 1:
        yield "losing copies run to their end: the gain is in latency alone, never in work"
