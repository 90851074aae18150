"""The adviser: a workload, an objective and limits in, plans in order of preference out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from parm_ray.advisor import reasons
from parm_ray.advisor.advice import Advice, AtLoad, Ranked, Unsimulated
from parm_ray.advisor.candidates import Candidate, candidates
from parm_ray.advisor.evidence import Evidence, evidence
from parm_ray.advisor.feasible import GROWS, accuracy_loss, refusal
from parm_ray.advisor.measured import Measured, behind
from parm_ray.advisor.objective import Objective
from parm_ray.advisor.oracle import Task, run
from parm_ray.advisor.race import NORMAL, Effort, Map, race
from parm_ray.advisor.workload import Limits, Workload
from parm_ray.stats.copies import Paired
from parm_ray.stats.families import Discrete
from parm_ray.stats.trust import ABOVE, require_quantile, require_size

# Plans whose objective differs by less are as good as each other: the simpler, then the cheaper one is taken.
TIE = 0.02

# The same where few queries are simulated: at other loads than that asked for.
LOOSE = 0.05

# Plans that are looked at at other loads beside no redundancy: the best of each kind, so many at most.
ELSEWHERE = 5

TAIL_POINTS = 80

# Runs of a plan with headroom.
HEADROOM_RUNS = 4

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
    objective, limits = objective or Objective(), limits or Limits()
    rng = np.random.default_rng([seed, 4])
    known = evidence(workload.service, rng, pairs)
    if pairs is not None and known.pairs is not None and not known.pairs.independent:
        workload = replace(workload, service=Paired(pairs))
    _require_sample(workload, objective)
    search = _Search(workload, objective, limits, known, effort, seed, spread)
    plans, hopeless = search.screened()
    measured = race(
        plans,
        workload,
        objective,
        effort.rounds,
        spread,
        seed,
        admits=search.admits,
        bears=search.bears,
        repeats=effort.repeats,
    )
    best = search.chosen(measured)
    ranked = search.ranked(measured, best)
    by_load = search.elsewhere(measured)
    return Advice(
        workload=workload,
        objective=objective,
        limits=limits,
        ranked=tuple(ranked),
        unsimulated=tuple(hopeless),
        by_load=tuple(by_load),
        evidence=known,
        warnings=tuple(reasons.warnings(workload, known, ranked[0], pairs is not None)),
    )


@dataclass
class _Search:
    workload: Workload
    objective: Objective
    limits: Limits
    known: Evidence
    effort: Effort
    seed: int
    spread: Map
    # What plans do at the headroom's rate; by name, of those that were asked.
    with_headroom: dict[str, float] = field(default_factory=dict)

    def screened(self) -> tuple[list[Candidate], list[Unsimulated]]:
        """Divide the candidates into those worth a simulation and those whose cost alone refuses them."""
        plans, hopeless = [], []
        for plan in candidates(self.workload, self.limits, self.objective, self.seed):
            why = "" if plan.plan.kind == "none" else reasons.too_costly(plan, self.workload, self.limits)
            if why:
                hopeless.append(Unsimulated(plan, why))
            else:
                plans.append(plan)
        return plans, hopeless

    def refused(self, one: Measured, none: Measured) -> str:
        """Why a plan cannot be advised, "" = it can; none: no redundancy in the same runs."""
        if why := refusal(one, none, self.workload, self.limits):
            return why
        busy = self.with_headroom.get(one.candidate.name, 0.0)
        if busy >= GROWS:
            return f"its queues grow without bound at {self.headroom:.3g} times the rate"
        return ""

    def admits(self, one: Measured, none: Measured) -> bool:
        """Whether it may go on in the race."""
        return not self.refused(one, none)

    @property
    def headroom(self) -> float:
        """How many times the rate a plan has to bear: no more than no redundancy would at the limit."""
        return min(self.limits.headroom, self.limits.load / self.workload.utilisation)

    def bears(self, plans: list[Candidate]) -> list[bool]:
        """Whether each plan is stable with headroom."""
        if self.headroom <= 1:
            return [True] * len(plans)
        asked = [one for one in plans if one.plan.kind != "none" and one.name not in self.with_headroom]
        last = self.effort.rounds[-1]
        begin, runs = self.seed + 1_000_000, min(HEADROOM_RUNS, last.runs)
        rate = self.headroom * self.workload.rate
        tasks = [
            Task(one, self.workload, rate, last.queries, begin + n) for one in asked for n in range(runs)
        ]
        found = iter(list(self.spread(run, tasks)))
        for one in asked:
            self.with_headroom[one.name] = float(np.mean([next(found).load for _ in range(runs)]))
        return [self.with_headroom.get(one.name, 0.0) < GROWS for one in plans]

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
            if self.bears([best.candidate])[0]:
                return best

    def ranked(self, measured: Sequence[Measured], best: Measured) -> list[Ranked]:
        """All simulated plans: the best one, the others that may be advised by their objective, the rest."""
        none = measured[0]
        rows = [(one, self.refused(one, none)) for one in measured]
        rows.sort(key=lambda row: (row[0] is not best, bool(row[1]), behind(row[0], best, self.objective)))
        return [self._ranked(one, why, none, best) for one, why in rows]

    def _ranked(self, one: Measured, refused: str, none: Measured, best: Measured) -> Ranked:
        latencies = one.latencies
        ranked = Ranked(
            candidate=one.candidate,
            objective_s=one.of(self.objective),
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

    def elsewhere(self, measured: Sequence[Measured]) -> list[AtLoad]:
        """What would be advised at other loads, of no redundancy and the best plan of each kind."""
        workload, effort = self.workload, self.effort
        near = self.objective.coarse(effort.load_queries)
        kinds: dict[tuple[str, bool, bool], Measured] = {}
        for one in sorted(measured[1:], key=lambda one: (-len(one.trials), one.of(near))):
            plan = one.candidate.plan
            kinds.setdefault((plan.kind, one.candidate.shared, bool(plan.hedge)), one)
        tried = [measured[0].candidate, *(one.candidate for one in list(kinds.values())[:ELSEWHERE])]
        rates = [load * workload.replicas / workload.service.mean for load in effort.loads]
        tasks = [
            Task(plan, workload, rate, effort.load_queries, self.seed + 2_000_000)
            for rate in rates
            for plan in tried
        ]
        trials = iter(list(self.spread(run, tasks)))
        found = []
        for load, rate in zip(effort.loads, rates, strict=True):
            here = [Measured(plan, [next(trials)]) for plan in tried]
            elsewhere = replace(self, workload=replace(workload, rate=rate), with_headroom={})
            scores = {
                one.candidate.name: one.of(near) if elsewhere.admits(one, here[0]) else None for one in here
            }
            able = {name: score for name, score in scores.items() if score is not None}
            least = min(able.values(), default=0.0)
            ties = [
                one.candidate for one in here if able.get(one.candidate.name, np.inf) <= least * (1 + LOOSE)
            ]
            best = min(ties, key=lambda plan: plan.complexity)
            found.append(AtLoad(load, rate, best.name, scores))
        return found


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
