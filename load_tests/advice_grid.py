"""`python -m load_tests.advice_grid`: is the adviser right? Its choice against an exhaustive simulation.

A grid of workloads: laws of service times x loads x what cancelling costs x replicas. In each the adviser
chooses with the effort that a user would give it; then all of its candidates, and hedges at many more delays,
are simulated at length with other seeds, and the choice is compared with the best that keeps the same limits.
The command prints how often it is within 5 %, and every cell where it is not.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from parm_ray.advisor import EFFORTS, Limits, Losers, Objective, ParityOffer, Workload, advise, parse_law
from parm_ray.advisor.candidates import Candidate, candidates, hedged_after
from parm_ray.advisor.feasible import GROWS, refusal
from parm_ray.advisor.headroom import Headroom, times_of
from parm_ray.advisor.measured import Measured
from parm_ray.advisor.oracle import Map, Task, run
from parm_ray.advisor.race import Effort
from parm_ray.sim.processes import workers

LAWS = (
    "bimodal(fast=1, slow=10, slow_share=0.02)",
    "bimodal(fast=1, slow=10, slow_share=0.08)",
    "shifted_exponential(shift=0.8, rate=5)",
    "log_normal(mu=0, sigma=1)",
    "pareto(least=1, shape=2.5)",
    "hyperexponential(share=0.9, rates=1/0.1)",
    "weibull(shape=0.7, scale=1)",
)
LOADS = (0.25, 0.5, 0.75)
# What stopping a call costs, seconds (None: it cannot be), and how many replicas.
PLACES = ((None, 4), (0.0, 4), (None, 12))
PARITIES = tuple(ParityOffer(k) for k in (2, 3, 4))

# Exhaustive: all plans get the first runs; those within NEAR of the best one get the further ones, too.
FIRST, FURTHER, NEAR = (2, 4000), (6, 8000), 0.15
CLOSE = 0.05
SEED = 50_000_000

# Quantiles of the service time that hedges are tried after, beside the adviser's delays.
QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995)


def cells() -> Iterator[dict[str, Any]]:
    """Yield the grid."""
    for law, load, (cancel_s, replicas) in product(LAWS, LOADS, PLACES):
        yield {"law": law, "load": load, "cancel_s": cancel_s, "replicas": replicas}


def workload_of(cell: dict[str, Any]) -> Workload:
    """Return a cell as a workload."""
    law = parse_law(cell["law"])
    rate = cell["load"] * cell["replicas"] / law.mean
    return Workload(law, rate, cell["replicas"], Losers(cell["cancel_s"]), PARITIES)


def judged(cell: dict[str, Any], objective: Objective, effort: Effort, spread: Map) -> dict[str, Any]:
    """Ask the adviser, then simulate everything."""
    workload, limits = workload_of(cell), Limits()
    began = time.perf_counter()
    advice = advise(workload, objective, limits, effort=effort, spread=spread)
    took = time.perf_counter() - began
    plans = {plan.name: plan for plan in everything(workload, limits, objective)}
    chosen = advice.best.candidate
    plans.setdefault(chosen.name, chosen)
    found = exhaustive(list(plans.values()), chosen, workload, objective, spread)
    mine = next(one for one in found if one.candidate.name == chosen.name)
    none = found[0]
    better = sorted(
        (one for one in found if not refusal(one, none, workload, limits)), key=lambda one: one.of(objective)
    )
    # Whether a plan bears the headroom is only asked of those that would beat the choice.
    headroom = Headroom(workload, times_of(workload, limits), 6000, spread, SEED)
    best = mine
    for one in better:
        if one.of(objective) >= mine.of(objective):
            break
        if headroom.bears([one.candidate])[0]:
            best = one
            break
    return {
        **cell,
        "objective": str(objective),
        "advised": chosen.name,
        "best": best.candidate.name,
        "advised_s": mine.of(objective),
        "best_s": best.of(objective),
        "none_s": none.of(objective),
        "ratio": mine.of(objective) / best.of(objective),
        "load_of_advised": mine.load(none, workload.utilisation),
        "stable": mine.load(none, workload.utilisation) < GROWS and headroom.bears([chosen])[0],
        "took_s": took,
    }


def everything(workload: Workload, limits: Limits, objective: Objective) -> Iterator[Candidate]:
    """Yield the adviser's candidates, and hedges after many more delays."""
    yield from candidates(workload, limits, objective)
    draws = workload.service.sample(np.random.default_rng(9), 100_000)  # type: ignore[union-attr]
    for seconds in np.unique(np.quantile(draws, QUANTILES, method="inverted_cdf")):
        yield hedged_after(float(seconds), float(np.mean(draws > seconds)), workload)


def exhaustive(
    plans: Sequence[Candidate], chosen: Candidate, workload: Workload, objective: Objective, spread: Map
) -> list[Measured]:
    """Return plans with their runs, no redundancy first; it and the choice get all runs in any case."""
    found = [Measured(plan) for plan in plans]
    _extend(found, workload, *FIRST, SEED, spread)
    least = min(one.of(objective) for one in found if one.load(found[0], workload.utilisation) < GROWS)
    near = [
        one
        for one in found
        if one.of(objective) <= (1 + NEAR) * least
        or one.candidate.name == chosen.name
        or one.candidate.plan.kind == "none"
    ]
    _extend(near, workload, *FURTHER, SEED + 1000, spread)
    return near


def _extend(
    plans: Sequence[Measured], workload: Workload, runs: int, queries: int, seed: int, spread: Map
) -> None:
    tasks = [
        Task(one.candidate, workload, workload.rate, queries, seed + n) for one in plans for n in range(runs)
    ]
    found = iter(list(spread(run, tasks)))
    for one in plans:
        one.trials += [next(found) for _ in range(runs)]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the grid, or every n-th cell of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--objective", default="p99")
    parser.add_argument("--effort", choices=list(EFFORTS), default="quick")
    parser.add_argument("--every", type=int, default=1, help="only every n-th cell")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print all cells as JSON at the end")
    given = parser.parse_args(argv)
    # What advice elsewhere would be is not asked here.
    effort = replace(EFFORTS[given.effort], loads=())
    rows = []
    with workers(given.processes) as spread:
        for cell in list(cells())[:: given.every]:
            row = judged(cell, Objective.parse(given.objective), effort, spread)
            rows.append(row)
            print(json.dumps(row), file=sys.stderr, flush=True)
    within = [row for row in rows if row["ratio"] <= 1 + CLOSE]
    summary = {
        "command": f"python -m load_tests.advice_grid {' '.join(argv if argv is not None else sys.argv[1:])}",
        "cells": len(rows),
        "within_5_percent": len(within) / len(rows),
        "stable": sum(row["stable"] for row in rows) / len(rows),
        "worst": max(row["ratio"] for row in rows),
        "outside": [row for row in rows if row["ratio"] > 1 + CLOSE or not row["stable"]],
    }
    print(json.dumps({**summary, "all": rows} if given.json else summary, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
