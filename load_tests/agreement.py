"""`python -m load_tests.agreement RUN`: does the simulator say what the real run measured?

Simulates the scenario of a run on a cluster, on the same planned arrivals, and puts both side by side.
The simulator knows no machine, so that it is told two numbers per load, taken from one plan (by default
Equal-Resources, which has no protection to be wrong about): for how long a call holds its replica beyond
service (from the measured utilisation), and what the way there and back costs (from the median). All that
is said of the other plans is prediction. With --hold each the first of the two comes from every plan's own
utilisation: a plan that costs the machine more work a query holds its replicas longer, which no simulator of
queues can know; of its latencies it is still told nothing. Of a run with shuffles it takes what they do to
calls from the same plan's tail, as `scenarios.paper.tail_of` does from the paper's.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from load_tests.experiment.rows import Measurement, measure
from load_tests.experiment.runs import RunDirectory, RunError, read_run
from load_tests.experiment.terminal import wide
from load_tests.tables import ms, percent
from parm_ray.config.scenario import NetworkSettings, PathSettings, Scenario, ScenarioPlan
from parm_ray.core import ParmError
from parm_ray.scenarios import row_of, simulate_cell
from parm_ray.scenarios.paper import EqualResources, hit_of, tail_of

Row = dict[str, Any]
FULL = 0.97
"""Utilisation from which on a pool counts as busy throughout."""

TIED = 0.05
"""Two plans whose p99 differ by less, as a share of the smaller one, are in no order."""


@dataclass(frozen=True)
class Both:
    """One plan at one load, measured and simulated; milliseconds."""

    plan: str
    load: float
    measured: Row
    simulated: Row

    def off(self, name: str) -> float:
        """Simulated over measured, less one; 0 where both are among the failed, nan where one is."""
        real, ours = self.measured[name], self.simulated[name]
        never = ours is None or not math.isfinite(ours)
        if never or not math.isfinite(real):
            return 0.0 if never and not math.isfinite(real) else math.nan
        return float(ours / real - 1)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the comparison; 0 if every p99 and the ranking agree, 1 if not, 2 if there is no comparison."""
    options = _parser().parse_args(argv)
    try:
        directory = read_run(options.run)
        found = agreement(directory, options.calibrate, options.repetitions, options.hold == "each")
    except (OSError, ValueError, ParmError) as error:
        Console(stderr=True).print(f"[red]error:[/] {error}", highlight=False, soft_wrap=True)
        return 2
    swapped = out_of_order(found)
    if options.json:
        print(json.dumps({"rows": [_plain(one) for one in found], "out_of_order": swapped}, indent=2))
    else:
        _print(found, swapped, options.within)
    agree = not swapped and all(abs(one.off("p99_ms")) <= options.within for one in found)
    return 0 if agree else 1


def agreement(directory: RunDirectory, reference: str, repetitions: int, each: bool = False) -> list[Both]:
    """Simulate every plan and load of a real run; rows in the order of loads, then plans.

    repetitions: of the simulation, over other arrivals and slow calls too. each: how long a call holds its
    replica beyond service is taken from each plan's own utilisation, not the reference's. Raises RunError
    for a run that the simulator made, or without `reference`.
    """
    run = directory.run
    if run.executor == "simulator":
        raise RunError(f"{directory.path}: executor: expected a run on a cluster, got simulator")
    scenario = Scenario.model_validate(run.settings)
    scenario = _with_path(scenario, PathSettings(cancel_ms=scenario.path.cancel_ms))
    measured = {(one.variant.plan, _point(scenario, one)): one for one in measure(directory)}
    plans = {plan.name: plan for plan in scenario.plans}
    found: list[Both] = []
    for point in sorted({point for _, point in measured}):
        known = measured.get((reference, point))
        if known is None:
            raise RunError(f"{directory.path}: no {reference} at point {point} to take the path's costs from")
        there = _calibrated(scenario, plans[reference], point, known, repetitions)
        for (name, at), one in measured.items():
            if at == point:
                own = _held(there, plans[name], point, one) if each and name != reference else there
                row = _simulated(own, plans[name], point, _queries(one), repetitions)
                found.append(Both(name, scenario.points()[point][1], one.row, row))
    return found


def out_of_order(found: Sequence[Both]) -> list[str]:
    """Return the pairs of plans that measurement and simulation rank the other way round, by p99.

    Pairs within TIED of each other in either count as tied, and those without a finite value as unknown.
    """
    swapped = []
    for i, one in enumerate(found):
        for other in found[i + 1 :]:
            if one.load != other.load:
                continue
            real = _order(one.measured["p99_ms"], other.measured["p99_ms"])
            ours = _order(one.simulated["p99_ms"], other.simulated["p99_ms"])
            if real * ours < 0:
                swapped.append(f"{one.plan} and {other.plan} at load {one.load:.2f}")
    return swapped


def _order(first: float | None, second: float | None) -> int:
    if first is None or second is None or not (math.isfinite(first) and math.isfinite(second)):
        return 0
    if abs(first - second) <= TIED * min(first, second):
        return 0
    return -1 if first < second else 1


def _calibrated(
    scenario: Scenario, plan: ScenarioPlan, point: int, known: Measurement, repetitions: int
) -> Scenario:
    """Return the scenario with the path's costs as one plan's measurement shows them at one load."""
    busy = known.row["utilization_all"]
    if busy is None:
        raise RunError(f"{plan.name}: utilization_all: expected a measured one, got none")
    if scenario.shuffles is not None:
        scenario = scenario.model_copy(update={"network": _network(scenario, plan, known)})
    # The same arrivals as in the measurement, whose rate is never quite the planned one.
    numbers = [cell.repetition for cell in known.cells]
    cells = [simulate_cell(scenario, plan, point, number, _queries(known)) for number in numbers]
    ours = median(sum(c.found.busy_s.values()) / (plan.replicas * c.found.span_s) for c in cells)
    slot_s = max(0.0, busy - ours) * plan.replicas / known.rate * scenario.batch.max_size
    there = _with_path(scenario, scenario.path.model_copy(update={"slot_ms": 1e3 * slot_s}))
    bare = _simulated(there, plan, point, _queries(known), repetitions)
    overhead = max(0.0, known.row["p50_ms"] - bare["p50_ms"])
    return _with_path(there, there.path.model_copy(update={"overhead_ms": overhead}))


def _held(there: Scenario, plan: ScenarioPlan, point: int, one: Measurement) -> Scenario:
    """Return the scenario with the time that this plan's calls hold a replica beyond service.

    A plan that keeps its replicas busy throughout says nothing of it.
    """
    busy = one.row["utilization_all"]
    if busy is None or busy > FULL:
        return there
    for _ in range(2):  # more work for each call changes how many hedges are sent: once more
        cells = [simulate_cell(there, plan, point, c.repetition, _queries(one)) for c in one.cells]
        ours = median(sum(c.found.busy_s.values()) / (plan.replicas * c.found.span_s) for c in cells)
        calls = one.rate * (1 + (one.row["extra_work"] or 0.0)) / there.batch.max_size
        slot_ms = there.path.slot_ms + 1e3 * (busy - ours) * plan.replicas / calls
        there = _with_path(there, there.path.model_copy(update={"slot_ms": max(0.0, slot_ms)}))
    return there


def _network(scenario: Scenario, plan: ScenarioPlan, known: Measurement) -> NetworkSettings:
    """Return what shuffles did to calls, from the tail of a plan without redundancy."""
    row = known.row
    figures = EqualResources(
        median=row["p50_ms"],
        mean=row["mean_ms"],
        p99=row["p99_ms"],
        p99_5=row["p995_ms"],
        p99_9=row["p999_ms"],
        rate=known.rate,
        servers=max(plan.replicas, (scenario.lab or {}).get("model_nodes", 0)),
        shuffles=(scenario.shuffles or {}).get("concurrent", 1),
    )
    disturbed, delay_ms = tail_of(figures)
    if not delay_ms > 0:
        raise RunError(f"{plan.name}: p99, p99.5 and p99.9 do not ascend: too few queries to fit a tail to")
    return NetworkSettings(hit=min(1.0, hit_of(min(disturbed, 0.99), figures)), delay_ms=delay_ms)


def _with_path(scenario: Scenario, path: PathSettings) -> Scenario:
    return scenario.model_copy(update={"path": path})


def _simulated(scenario: Scenario, plan: ScenarioPlan, point: int, queries: int, repetitions: int) -> Row:
    cells = [simulate_cell(scenario, plan, point, number, queries) for number in range(repetitions)]
    return row_of(cells, scenario.warm_up)


def _point(scenario: Scenario, one: Measurement) -> int:
    """Return the number of the scenario's point at which it was measured."""
    rates = [rate for rate, _ in scenario.points()]
    return min(range(len(rates)), key=lambda point: abs(rates[point] - one.rate))


def _queries(one: Measurement) -> int:
    """Return how many queries of a repetition were planned, those of the warm-up included."""
    return int(median(one.row["queries"] / len(one.cells) + cell.warm_up for cell in one.cells))


def _plain(one: Both) -> Row:
    names = ("p50_ms", "p99_ms", "p999_ms", "reconstructed", "extra_work", "utilization_all")
    row: Row = {"plan": one.plan, "load": one.load}
    for name in names:
        for key, value in ((name, one.measured[name]), (f"simulated_{name}", one.simulated.get(name))):
            # JSON has no infinity: null, as in the rows of a run.
            row[key] = None if isinstance(value, float) and not math.isfinite(value) else value
    off = one.off("p99_ms")
    return {**row, "p99_off": None if math.isnan(off) else round(off, 4)}


def _print(found: Sequence[Both], swapped: Sequence[str], within: float) -> None:
    console = wide(Console())
    for load in dict.fromkeys(one.load for one in found):
        columns = ("plan", "p50", "simulated", "p99", "simulated", "off by", "p99.9", "simulated")
        table = Table(
            *columns, "reconstructed", "simulated", title=f"load {load:.2f}, ms", title_justify="left"
        )
        for one in (both for both in found if both.load == load):
            cells = [one.plan]
            for name in ("p50_ms", "p99_ms", "p999_ms"):
                cells += [ms(one.measured[name]), ms(one.simulated[name])]
                if name == "p99_ms":
                    off = one.off(name)
                    mark = "" if abs(off) <= within else " [red]![/]"
                    cells.append("-" if math.isnan(off) else f"{100 * off:+.1f} %{mark}")
            shares = (one.measured["reconstructed"], one.simulated["reconstructed"])
            table.add_row(*cells, *(percent(share) for share in shares))
        console.print(table)
    off_by = [abs(one.off("p99_ms")) for one in found if not math.isnan(one.off("p99_ms"))]
    good = sum(off <= within for off in off_by)
    console.print(f"p99 within {100 * within:.0f} %: {good} of {len(found)}; median off by {_middle(off_by)}")
    console.print("order by p99: " + ("the same" if not swapped else "; ".join(swapped) + " are swapped"))


def _middle(shares: Sequence[float]) -> str:
    return percent(median(shares)) if shares else "-"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m load_tests.agreement", description=__doc__.split("\n")[0]
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run directory of a run on a cluster")
    parser.add_argument(
        "--calibrate", default="equal_resources", metavar="PLAN", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--hold",
        choices=("reference", "each"),
        default="reference",
        help="whose utilisation (default: %(default)s)",
    )
    parser.add_argument("--repetitions", type=int, default=5, help="of the simulation (default: %(default)s)")
    parser.add_argument("--within", type=float, default=0.15, help="what counts as agreement (default: 0.15)")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
