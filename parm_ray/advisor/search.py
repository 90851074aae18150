"""The adviser: a workload, an objective and limits in, plans in order of preference out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parm_ray.advisor import reasons
from parm_ray.advisor.advice import Advice, Ranked, Unsimulated
from parm_ray.advisor.by_load import advice_by_load
from parm_ray.advisor.candidates import Candidate, candidates
from parm_ray.advisor.evidence import Evidence, evidence
from parm_ray.advisor.feasible import accuracy_loss, refusal
from parm_ray.advisor.headroom import Headroom, times_of
from parm_ray.advisor.measured import Measured, behind
from parm_ray.advisor.objective import Objective
from parm_ray.advisor.oracle import Map
from parm_ray.advisor.race import NORMAL, Effort, race
from parm_ray.advisor.workload import Limits, Workload
from parm_ray.stats.copies import Paired
from parm_ray.stats.families import Discrete
from parm_ray.stats.trust import ABOVE, require_quantile, require_size

# Plans whose objective differs by less are as good as each other: the simpler, then the cheaper one is taken.
TIE = 0.02

# From one advice's seeds to those of the next.
SEEDS = 1000

TAIL_POINTS = 80

P99, P999 = Objective(0.99), Objective(0.999)


def advise(
    workload: Workload,
    objective: Objective | None = None,
    limits: Limits | None = None,
    *,
    pairs: NDArray[np.float64] | None = None,
    effort: Effort = NORMAL,
    seed: int = 0,
    spread: Map = map,
) -> Advice:
    """Return which plan to run.

    objective: p99 unless given. pairs: seconds `[n, 2]` of queries that were served twice; if they contradict
    independent copies they take the place of `workload.service`, whose single times would mislead.
    spread: like the built-in `map`, e.g. `sim.processes.over_processes(2)`. Raises ValueError where a sample
    is too small for the objective, or nothing can be advised within the limits.
    """
    asked = objective = objective or Objective()
    limits = limits or Limits()
    rng = np.random.default_rng([seed, 4])
    known = evidence(workload.service, rng, pairs)
    if pairs is not None and known.pairs is not None and not known.pairs.independent:
        workload = replace(workload, service=Paired(pairs))
        # Pairs are fewer than single times: what they cannot tell is not refused, but told of what they can.
        objective = objective.coarse(pairs.size)
    _require_sample(workload, objective)
    # Two runs have one resample of the sample: seeds begin at even numbers, far apart for different advices.
    first = SEEDS * seed
    last = effort.rounds[-1]
    headroom = Headroom(
        workload, times_of(workload, limits), last.queries, spread, first, runs=max(2, last.runs // 3)
    )
    search = _Search(workload, objective, limits, known, headroom)
    plans, hopeless = search.screened(seed)
    measured = race(
        plans,
        workload,
        objective,
        effort.rounds,
        spread,
        first,
        admits=search.admits,
        bears=headroom.bears,
        repeats=effort.repeats,
    )
    best = search.chosen(measured)
    ranked = search.ranked(measured, best)
    by_load = advice_by_load(measured, workload, objective, limits, effort, first, spread)
    return Advice(
        workload=workload,
        objective=objective,
        limits=limits,
        ranked=tuple(ranked),
        unsimulated=tuple(hopeless),
        by_load=tuple(by_load),
        evidence=known,
        warnings=tuple(reasons.warnings(workload, known, ranked[0], pairs, asked, objective)),
    )


@dataclass
class _Search:
    workload: Workload
    objective: Objective
    limits: Limits
    known: Evidence
    headroom: Headroom

    def screened(self, seed: int) -> tuple[list[Candidate], list[Unsimulated]]:
        """Divide the candidates into those worth a simulation and those whose cost alone refuses them."""
        plans, hopeless = [], []
        for plan in candidates(self.workload, self.limits, self.objective, seed):
            why = "" if plan.plan.kind == "none" else reasons.too_costly(plan, self.workload, self.limits)
            if why:
                hopeless.append(Unsimulated(plan, why))
            else:
                plans.append(plan)
        return plans, hopeless

    def refused(self, one: Measured, none: Measured) -> str:
        """Why a plan cannot be advised, "" = it can; none: no redundancy in the same runs."""
        return refusal(one, none, self.workload, self.limits) or self.headroom.refused(one.candidate)

    def admits(self, one: Measured, none: Measured) -> bool:
        """Whether it may go on in the race."""
        return not self.refused(one, none)

    def chosen(self, measured: Sequence[Measured]) -> Measured:
        """The plan to advise: of those as good as the best, the simplest. It bears the headroom."""
        runs = max(len(one.trials) for one in measured)
        while True:
            finalists = [one for one in measured if len(one.trials) == runs and self.admits(one, measured[0])]
            scores = {id(one): one.of(self.objective) for one in finalists}
            least = min(scores.values())
            ties = [one for one in finalists if scores[id(one)] <= least * (1 + TIE)]
            best = min(ties, key=lambda one: (one.candidate.complexity, one.work_s))
            # A race of one round has asked nobody yet.
            if self.headroom.bears([best.candidate])[0]:
                return best

    def ranked(self, measured: Sequence[Measured], best: Measured) -> list[Ranked]:
        """All simulated plans: the best one, the others that may be advised by their objective, the rest."""
        none = measured[0]
        while True:
            rows = [(one, self.refused(one, none)) for one in measured]
            rows.sort(
                key=lambda row: (row[0] is not best, bool(row[1]), behind(row[0], best, self.objective))
            )
            # The second is what to run if the first cannot be: it has to bear the headroom, too.
            if len(rows) < 2 or rows[1][1] or self.headroom.bears([rows[1][0].candidate])[0]:
                return [self._ranked(one, why, none, best) for one, why in rows]

    def _ranked(self, one: Measured, refused: str, none: Measured, best: Measured) -> Ranked:
        latencies = one.latencies
        ranked = Ranked(
            candidate=one.candidate,
            # Of few queries a far percentile is an accident: what a plan that is out of the race was behind
            # the advised one, in the same runs, tells more.
            objective_s=best.of(self.objective) * (1 + behind(one, best, self.objective)),
            interval=one.interval(self.objective),
            over_none=one.ratio(none, self.objective),
            mean_s=float(latencies.mean()),
            p50_s=Objective(0.5).of(latencies),
            p99_s=self._told(P99, latencies),
            p999_s=self._told(P999, latencies),
            load=one.load(none, self.workload.utilisation),
            work_s=one.work_s,
            extra_work=one.extra_work(none),
            reconstructed=one.reconstructed,
            accuracy_loss=accuracy_loss(one),
            queries=len(latencies),
            tail=_tail(latencies),
            refused=refused,
        )
        return reasons.with_reason(ranked, one, none, best, self.objective, self.known)

    def _told(self, objective: Objective, latencies: NDArray[np.float64]) -> float | None:
        assert objective.quantile is not None
        beyond = 1 - objective.quantile
        size = _sample_size(self.workload)
        enough = len(latencies) * beyond >= ABOVE and (size is None or size * beyond * (1 + 1e-9) >= ABOVE)
        return objective.of(latencies) if enough else None


def _tail(latencies: NDArray[np.float64]) -> tuple[tuple[float, float], ...]:
    """Points of the tail, down to where ten queries are left."""
    shares = np.logspace(0, np.log10(ABOVE / len(latencies)), TAIL_POINTS)
    seconds = np.quantile(latencies, 1 - shares, method="inverted_cdf")
    return tuple(zip(seconds.tolist(), shares.tolist(), strict=True))


def _sample_size(workload: Workload) -> int | None:
    x = workload.service
    if isinstance(x, Paired):
        return x.pairs.size
    return x.size if isinstance(x, Discrete) else None


def _require_sample(workload: Workload, objective: Objective) -> None:
    size = _sample_size(workload)
    if size is not None:
        require_size(range(size))
        if objective.quantile is not None:
            require_quantile(range(size), objective.quantile)
