"""`python -m load_tests.advice_run`: does the adviser's plan do on real Serve what it said?

Two patterns of slow calls (emulated accelerators, real forward passes, real HTTP) at two loads each. First
the pattern is measured at low load, without redundancy: the adviser gets the client's latencies, less what
the way to the replica and back takes (the difference of the client's median and that of the calls as the
ingress has seen them), and that way is added to what it predicts. Then the advised plan and the best plans of
other kinds are deployed in turn and queried at the rate that was asked about, and the measured p99 is put
beside the predicted one.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from load_tests import http_json
from load_tests.cluster import ClusterError, cluster
from load_tests.experiment.rows import measure
from load_tests.experiment.runs import read_run
from load_tests.progress import Reporter
from load_tests.records import read_parquet
from load_tests.run import ROOT, described, interrupt
from load_tests.scenario_places import OneCluster
from load_tests.scenario_run import Wanted, carry_out
from parm_ray.advisor import EFFORTS, Advice, Candidate, Objective, ParityOffer, Ranked, Workload, advise
from parm_ray.config.advised import plan_settings
from parm_ray.config.scenario import Scenario, ScenarioPlan
from parm_ray.core import Outcome, ParmError
from parm_ray.models.manifest import load_manifest
from parm_ray.sim.processes import workers
from parm_ray.stats.families import Empirical

# Calls are long enough for two cores: what a query costs them (HTTP, coding, real forward passes) is no part
# of what the adviser knows, and has to stay small beside it.
PATTERNS: dict[str, dict[str, Any]] = {
    "slow_calls": {
        "service": {"kind": "shifted_exponential", "shift_s": 0.18, "mean_s": 0.2},
        "slowness": {"share": 0.02, "factor": 10},
    },
    "heavy_tail": {
        "service": {"kind": "shifted_exponential", "shift_s": 0.15, "mean_s": 0.24},
        "slowness": {"share": 0.1, "shape": 1.5, "at_most": 20},
    },
}
LOADS = (0.3, 0.55)
ARTIFACTS = "artifacts/mnist5k"
REPLICAS = 6
QUIET_LOAD = 0.2

# Plans measured beside the advised one: the best of other kinds by the adviser's own ranking.
OTHERS = 2
P99 = Objective(0.99)


def scenario_of(
    pattern: str, name: str, plans: Sequence[ScenarioPlan], rate: float, queries: int, seed: int
) -> Scenario:
    """Return a scenario that runs the plans at one rate."""
    return Scenario.model_validate(
        {
            "name": f"advice_{pattern}_{name}",
            "m": REPLICAS,
            "rates": [rate],
            "queries": queries,
            "warm_up": min(100, queries // 10),
            "repetitions": 1,
            "seed": seed,
            "artifacts": ARTIFACTS,
            "plans": [plan.model_dump(exclude_unset=True) for plan in plans],
            **PATTERNS[pattern],
        }
    )


def scenario_plan(number: int, candidate: Candidate) -> ScenarioPlan:
    """Return a candidate as a scenario has plans."""
    return ScenarioPlan(
        name=f"plan{number}",
        title=candidate.name,
        plan=plan_settings(candidate),
        deployed=candidate.deployed,
        parity=candidate.parity or None,
    )


def others_of(advice: Advice) -> Iterator[Ranked]:
    """Yield no redundancy, and the best plan of every kind that was not advised."""
    seen = {_kind(advice.best)}
    for one in [advice.none, *advice.ranked]:
        if not one.refused and _kind(one) not in seen:
            seen.add(_kind(one))
            yield one


def _kind(one: Ranked) -> tuple[str, bool, bool]:
    return one.plan.kind, one.candidate.shared, one.plan.hedge is not None


class Here(OneCluster):
    """A cluster that knows where the last deployment answers."""

    url = ""

    def deploy(self, document: dict[str, Any], target: Path) -> str:
        """Deploy the document; see `scenario_run.Place`."""
        self.url = super().deploy(document, target)
        return self.url


class Runs:
    """Carries scenarios out on one cluster."""

    def __init__(self, place: Here, out: Path, reporter: Reporter, arguments: Sequence[str]) -> None:
        self._place, self._out, self._reporter, self._arguments = place, out, reporter, arguments

    def run(self, scenario: Scenario) -> Path:
        """Return the run directory."""
        out = self._out / scenario.name
        wanted = Wanted(scenario.plans, scenario.queries, 1)
        run = described(scenario, self._arguments, "local", "load_tests.advice_run")
        carry_out(scenario, wanted, self._place, out, ROOT, run, self._reporter)
        return out

    def in_service(self) -> NDArray[np.float64]:
        """Return how long the last calls of what is deployed took, as the ingress saw them, seconds."""
        name = load_manifest(ROOT / ARTIFACTS / "deployed").name
        page = http_json.get(f"{self._place.url}/v2/models/{name}/observations")
        return np.array(page["calls"]["deployed"]["seconds"])


def quiet_times(runs: Runs, pattern: str, queries: int, seed: int) -> tuple[NDArray[np.float64], float]:
    """Return how long calls take that nobody else disturbs, `[n]` seconds, and the way there and back."""
    mean = scenario_of(pattern, "x", [ScenarioPlan(name="none", deployed=1)], 1.0, 100, 0).mean_service_s
    plan = ScenarioPlan(name="none", title="quiet", deployed=REPLICAS)
    scenario = scenario_of(pattern, "quiet", [plan], QUIET_LOAD * REPLICAS / mean, queries, seed)
    directory = read_run(runs.run(scenario))
    records = read_parquet(directory.path / f"{directory.run.cells[0].id}.parquet")[scenario.warm_up :]
    latencies = np.array([one.done - one.sent for one in records if one.outcome is Outcome.ORIGINAL])
    way = float(np.median(latencies) - np.median(runs.in_service()))
    return np.maximum(latencies - way, 1e-3), way


def checked(
    runs: Runs, pattern: str, times: NDArray[np.float64], way_s: float, load: float, options: Any
) -> dict[str, Any]:
    """Ask, run, compare; milliseconds."""
    rate = load * REPLICAS / float(times.mean())
    workload = Workload(Empirical(times), rate, REPLICAS, parities=(ParityOffer(2),))
    with workers(2) as spread:
        advice = advise(workload, P99, effort=EFFORTS[options.effort], seed=options.seed, spread=spread)
    shown = [advice.best, *list(others_of(advice))[:OTHERS]]
    plans = [scenario_plan(number, one.candidate) for number, one in enumerate(shown)]
    name = f"at_{100 * load:.0f}"
    scenario = scenario_of(pattern, name, plans, rate, options.queries, options.seed + 1)
    measured = {one.variant.plan: one for one in measure(read_run(runs.run(scenario)))}
    rows = []
    for number, one in enumerate(shown):
        found = measured[f"plan{number}"]
        rows.append(
            {
                "plan": one.name,
                "advised": number == 0,
                "predicted_p99_ms": 1e3 * (way_s + one.objective_s),
                "measured_p99_ms": found.row["p99_ms"],
                "predicted_p50_ms": 1e3 * (way_s + one.p50_s),
                "measured_p50_ms": found.row["p50_ms"],
                "predicted_load": one.load,
                "measured_load": found.row["utilization"],
                "errors": found.row["errors"],
                "generator_late_p99_ms": found.send_lateness_p99,
            }
        )
    first = rows[0]
    least = min(row["measured_p99_ms"] for row in rows)
    return {
        "pattern": pattern,
        "load": load,
        "rate_per_s": rate,
        "way_ms": 1e3 * way_s,
        "reason": advice.best.reason,
        "off": first["predicted_p99_ms"] / first["measured_p99_ms"] - 1,
        "over_best_tried": first["measured_p99_ms"] / least,
        "plans": rows,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; exit status 1 if a prediction is off by more than 15 %, 2 if it could not run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--queries", type=int, default=1800, help="of each plan at each load")
    parser.add_argument("--quiet-queries", type=int, default=2000, help="of the measurement before")
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--loads", default=",".join(map(str, LOADS)))
    parser.add_argument("--effort", choices=list(EFFORTS), default="quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "advice")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    arguments = list(argv) if argv is not None else sys.argv[1:]
    found = []
    try:
        with cluster(num_cpus=4, cwd=ROOT) as ray:
            runs = Runs(Here(ray), options.out, Reporter(Console(stderr=True)), arguments)
            for pattern in options.patterns.split(","):
                times, way_s = quiet_times(runs, pattern, options.quiet_queries, options.seed)
                for load in options.loads.split(","):
                    found.append(checked(runs, pattern, times, way_s, float(load), options))
    except (ParmError, ClusterError, OSError, KeyError, ValueError) as error:
        Console(stderr=True).print(f"[red]error:[/] {error}", highlight=False, soft_wrap=True)
        return 2
    command = f"python -m load_tests.advice_run {' '.join(arguments)}"
    if options.json:
        print(json.dumps({"command": command, "checks": found}, indent=1))
    else:
        _print(found)
    return int(any(abs(check["off"]) > 0.15 for check in found))


def _print(found: Sequence[dict[str, Any]]) -> None:
    names = ("pattern", "load", "plan", "p99 said", "p99 measured", "off", "p50 said", "p50 measured", "busy")
    table = Table(*names)
    for check in found:
        for row in check["plans"]:
            table.add_row(
                check["pattern"],
                f"{check['load']:.0%}",
                ("* " if row["advised"] else "") + row["plan"],
                f"{row['predicted_p99_ms']:.0f}",
                f"{row['measured_p99_ms']:.0f}",
                f"{row['predicted_p99_ms'] / row['measured_p99_ms'] - 1:+.0%}",
                f"{row['predicted_p50_ms']:.0f}",
                f"{row['measured_p50_ms']:.0f}",
                f"{row['predicted_load']:.0%} / {row['measured_load']:.0%}",
            )
    Console(width=None if sys.stdout.isatty() else 160).print(table)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    sys.exit(main())
