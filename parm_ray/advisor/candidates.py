"""The plans that a server could run for a workload, as the server takes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from parm_ray.advisor.delays import Delay, promising_delays
from parm_ray.advisor.objective import Objective
from parm_ray.advisor.workload import Limits, ParityOffer, Workload
from parm_ray.redundancy import Hedge, RedundancyPlan
from parm_ray.stats.copies import draw_copies

# Latencies are compared, not deadlines.
NEVER_S = 1e9

# Hedges may be so many times as frequent as expected before the budget stops them, and one query in a hundred
# more: the budget is there for when the expectation is wrong.
SLACK, SPARE = 1.5, 0.01

# Shares of the replicas that have to be idle before a copy is sent along.
COPY_SHARES = (0.3, 0.6)

# Hold-offs tried where reconstructions cost accuracy: so many times what nine calls in ten take at most. They
# count from the dispatch, so that under load part of them passes in the queue.
HOLD_OFFS = (1.0, 1.5, 2.5)

# Beside other protection hedges are few: at most this share of the queries, if one such delay is there.
FEW = 0.1

# A group waits for its members for this share of the median service time, then goes as it is.
FILL = 0.5


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan and the replicas it is run with.

    deployed, parity: replicas of the pools; shared: parity queries run on the deployed ones, when those would
    be idle. offer: the parity models of a coded plan. cost_s: server seconds of a query as far as known
    before a simulation: exact, or at zero load. complexity: by which ties are broken, the simplest first.
    """

    name: str
    plan: RedundancyPlan
    deployed: int
    parity: int = 0
    shared: bool = False
    offer: ParityOffer | None = None
    cost_s: float | None = None

    @property
    def complexity(self) -> int:
        """How many mechanisms are at work."""
        plan = self.plan
        own_pool = plan.coded and not self.shared
        return (
            2 * plan.coded + own_pool + (plan.hedge is not None) + (plan.copies > 1) + bool(plan.copy_share)
        )


def candidates(workload: Workload, limits: Limits, objective: Objective, seed: int = 0) -> list[Candidate]:
    """Return what is worth simulating: no redundancy, which all are compared with, then the kinds allowed."""
    delays = promising_delays(
        workload.service,
        objective,
        workload.losers,
        np.random.default_rng([seed, 1]),
        most=min(1.0, limits.extra_work),
    )
    found = [no_redundancy(workload)]
    if workload.replicas > 1:
        found += _replicated(workload, limits)
        if delays:
            found += _hedged(workload, objective, delays)
        found += _coded(workload, limits, _late(delays))
    return [found[0], *(one for one in found[1:] if one.plan.kind in limits.kinds)]


def no_redundancy(workload: Workload) -> Candidate:
    """Return the plan that all others are compared with."""
    return Candidate("none", _plan("none"), workload.replicas, cost_s=workload.service.mean)


def hedged_after(seconds: float, share: float, workload: Workload) -> Candidate:
    """Return hedges after so many seconds of service, which a `share` 0..1 of the calls takes longer than."""
    plan = _plan("hedged", hedge=_hedge(seconds, share, workload.rate))
    return Candidate(f"hedge {_ms(seconds)}", plan, workload.replicas)


def _plan(kind: str, **more: object) -> RedundancyPlan:
    return RedundancyPlan(kind, deadline_s=NEVER_S, **more)  # type: ignore[arg-type]


def _replicated(workload: Workload, limits: Limits) -> Iterator[Candidate]:
    x, losers = workload.service, workload.losers
    for copies in range(2, min(limits.copies, workload.replicas) + 1):
        cost = (
            copies * x.mean
            if losers.cancel_s is None
            else copies * x.min_mean(copies) + (copies - 1) * losers.cancel_s
        )
        plan = _plan("replicated", copies=copies)
        yield Candidate(f"{copies} copies", plan, workload.replicas, cost_s=cost)


def _hedged(workload: Workload, objective: Objective, delays: list[Delay]) -> Iterator[Candidate]:
    n, rate = workload.replicas, workload.rate
    for delay in delays:
        yield replace(hedged_after(delay.seconds, delay.rate, workload), cost_s=delay.cost_s)
    learned = Hedge("searched", quantile=objective.quantile or 0.99, budget_floor_per_s=SPARE * rate)
    yield Candidate("hedge searched", _plan("hedged", hedge=learned), n)
    late = _late(delays)
    assert late is not None
    for share in COPY_SHARES:
        plan = _plan("hedged", hedge=_hedge(late.seconds, late.rate, rate), copy_share=share)
        yield Candidate(f"hedge {_ms(late.seconds)}, copy if {share:.0%} idle", plan, n)


def _coded(workload: Workload, limits: Limits, late: Delay | None) -> Iterator[Candidate]:
    n = workload.replicas
    draws = draw_copies(workload.service, np.random.default_rng(0), (10_000,), 1)[:, 0]
    fill = FILL * float(np.median(draws))
    hold_offs = [0.0]
    if limits.accuracy_loss is not None:
        hold_offs += [times * float(np.quantile(draws, 0.9)) for times in HOLD_OFFS]
    for offer in workload.parities:
        spare = workload.parity_pool or max(1, round(n / (offer.k + 1)))
        deployed = n if workload.parity_pool else n - spare
        plan = _plan("coded", k=offer.k, r=1, fill_timeout_s=fill)
        for hold_off in dict.fromkeys(hold_offs):
            held = replace(plan, hold_off_s=hold_off)
            after = f", hold-off {_ms(hold_off)}" if hold_off else ""
            for hedge in (None, late):
                also = f", hedge {_ms(hedge.seconds)}" if hedge else ""
                whole = replace(
                    held, hedge=_hedge(hedge.seconds, hedge.rate, workload.rate) if hedge else None
                )
                name = f"coded k={offer.k}{after}{also}"
                if not workload.parity_pool:
                    yield Candidate(f"{name}, shared", replace(whole, idle_reserve=None), n, 0, True, offer)
                if workload.parity_pool != 0:
                    yield Candidate(name, replace(whole, eager_share=0.5), deployed, spare, False, offer)


def _late(delays: list[Delay]) -> Delay | None:
    """The best of those that send few hedges: where something else protects, too, few are enough."""
    few = [delay for delay in delays if delay.rate <= FEW] or delays
    return min(few, key=lambda delay: delay.objective_s, default=None)


def _hedge(seconds: float, share: float, rate: float) -> Hedge:
    budget = min(1.0, SLACK * share + SPARE)
    return Hedge("fixed", delay_s=seconds, budget_ratio=budget, budget_floor_per_s=SPARE * rate)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
