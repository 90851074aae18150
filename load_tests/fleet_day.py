"""`python -m load_tests.fleet_day`: hours of a large fleet in virtual time, by policy of the control plane.

Front ends and engines in regions around the world, demand that follows the sun, engines that get slow, fail
or disappear, front ends whose reports are lost. All in the fluid simulation (`parm_ray.sim.fleet.fluid`) with
the control plane and the front ends of a cluster. A page with charts over time of each policy goes to --out.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from parm_ray.routing.fleet import Demand, Engine, Fleet, MGc
from parm_ray.routing.fleet.feedback import Feedback
from parm_ray.routing.planes import Ages, ControlRule, FrontEndRule, PenaltyRule
from parm_ray.sim.fleet import Daily, FleetRun, FluidResult, Incidents, simulate_fluid
from parm_ray.sim.fleet.page import render

REGIONS = 6

# Around the world and back; and within a region.
ROUND_TRIP_S, LOCAL_S = 0.2, 0.002

# Nobody is penalised: feedback is the controller of the old way, and the plan without what guards it.
NOBODY = PenaltyRule(min_samples=10**9)


def main() -> int:
    """Simulate, print a table, write the pages."""
    parser = argparse.ArgumentParser(
        prog="python -m load_tests.fleet_day", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--front-ends", type=int, default=24)
    parser.add_argument("--engines", type=int, default=200)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--interval", type=float, default=60.0, help="seconds between decisions")
    parser.add_argument("--load", type=float, default=0.6, help="mean demand, of all capacity")
    parser.add_argument("--incidents", type=float, default=0.1, help="per engine and hour")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/fleet_day"))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    run = _run(given)
    command = "python -m load_tests.fleet_day " + " ".join(
        f"--{name.replace('_', '-')} {value}"
        for name, value in vars(given).items()
        if name not in ("out", "json")
    )
    given.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for name, one in _policies(run).items():
        began = perf_counter()
        result = simulate_fluid(one)
        rows.append({"policy": name, **_row(one, result), "seconds_to_simulate": perf_counter() - began})
        (given.out / f"{name}.html").write_text(
            render(one, result, f"a fleet's day, {name}"), encoding="utf-8"
        )
    if given.json:
        print(json.dumps({"command": command, "rows": rows}, indent=1))
        return 0
    print(command)
    table = Table("policy", "answered", "shed", "failed", "mean ms", "p99 of means", "moved", "seconds")
    for row in rows:
        table.add_row(
            row["policy"].replace("_", " "),
            *(f"{100 * row[name]:.3f} %" for name in ("answered", "shed", "failed")),
            *(f"{row[name]:.1f}" for name in ("mean_ms", "p99_of_means_ms")),
            f"{100 * row['moved_per_interval']:.2f} %",
            f"{row['seconds_to_simulate']:.0f}",
        )
    Console().print(table)
    print(f"pages: {given.out}")
    return 0


def _run(given: argparse.Namespace) -> FleetRun:
    rng = np.random.default_rng(given.seed)
    capacities = rng.uniform(50, 150, given.engines)
    shares = rng.dirichlet(np.full(given.front_ends, 5.0))
    front_ends = [f"f{i}" for i in range(given.front_ends)]
    engines = [f"e{j}" for j in range(given.engines)]
    # Regions lie on a circle, as their days do.
    apart = np.abs(
        np.arange(given.front_ends)[:, None] * REGIONS // given.front_ends - np.arange(REGIONS)[None, :]
    )
    trips = LOCAL_S + ROUND_TRIP_S * np.minimum(apart, REGIONS - apart) / (REGIONS // 2)
    fleet = Fleet(
        tuple(
            Demand(n, float(s * given.load * capacities.sum()))
            for n, s in zip(front_ends, shares, strict=True)
        ),
        tuple(Engine(n, MGc(float(c), 8, 1.5)) for n, c in zip(engines, capacities, strict=True)),
        trips[:, rng.integers(0, REGIONS, given.engines)],
    )
    duration = 3600 * given.hours
    background = [
        *Daily(0.6, step_s=given.interval).changes(front_ends, duration),
        *Incidents(given.incidents, silent_per_hour=given.incidents, mean_s=600.0).changes(
            engines, front_ends, duration, given.seed
        ),
    ]
    return FleetRun(
        fleet,
        ControlRule(ages=Ages(3 * given.interval, 60 * given.interval)),
        FrontEndRule(stale_s=3 * given.interval, expired_s=60 * given.interval),
        duration_s=duration,
        interval_s=given.interval,
        background=tuple(background),
        seed=given.seed,
    )


def _policies(run: FleetRun) -> dict[str, FleetRun]:
    def with_rule(**changes: Any) -> FleetRun:
        return replace(run, control=replace(run.control, **changes))

    return {
        "planned": run,
        "planned_without_penalties": with_rule(penalty=NOBODY),
        "feedback": with_rule(policy="feedback", feedback=Feedback(gain=0.1)),
        "feedback_eager": with_rule(policy="feedback", feedback=Feedback(gain=1.0)),
    }


def _row(run: FleetRun, result: FluidResult) -> dict[str, float]:
    """Shares of all requests; latencies in milliseconds; how far calls move from interval to interval."""
    offered = sum(one.offered for one in result.intervals)
    answered = sum(one.answered for one in result.intervals)
    means = np.array([one.mean_s for one in result.intervals])
    calls = np.array([one.calls for one in result.intervals])
    shares = calls / calls.sum(axis=1, keepdims=True)
    return {
        "intervals": len(result.intervals),
        "requests": offered,
        "answered": answered / offered,
        "shed": sum(one.shed for one in result.intervals) / offered,
        "failed": sum(one.failed for one in result.intervals) / offered,
        "mean_ms": 1e3 * sum(one.mean_s * one.answered for one in result.intervals) / answered,
        "p99_of_means_ms": 1e3 * float(np.quantile(means, 0.99)) if len(means) else math.nan,
        "moved_per_interval": float(np.abs(np.diff(shares, axis=0)).sum(axis=1).mean() / 2),
    }


if __name__ == "__main__":
    raise SystemExit(main())
