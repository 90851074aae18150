"""Carries a scenario out in the simulator, into the same run directory as a run on a cluster would give."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from pathlib import Path

import numpy as np

from load_tests.experiment.runs import Cell, Event, Replica, Run, write_cell, write_run
from load_tests.faults import ENDS
from load_tests.progress import Reporter
from load_tests.records import ClientRecord
from load_tests.scenario_cells import place_of
from load_tests.scenario_run import Wanted, in_order
from parm_ray.config.faults import FaultSettings
from parm_ray.config.scenario import Scenario, ScenarioPlan
from parm_ray.scenarios import SimulatedCell, over_processes, simulate_cell
from parm_ray.sim import OUTCOMES

_Task = tuple[Scenario, ScenarioPlan, int, int, int, Path]


def carry_out(
    scenario: Scenario, wanted: Wanted, out: Path, run: Run, reporter: Reporter, processes: int
) -> Run:
    """Simulate every wanted cell; return the run with them, as it is in `out`/run.json.

    A real run of the same scenario has the same planned arrivals. Raises ConfigError for what the
    simulator cannot do.
    """
    tasks: list[_Task] = [
        (scenario, plan, point, repetition, wanted.queries, out)
        for plan in wanted.plans
        for point, repetition in in_order(scenario, wanted)
    ]
    with reporter.step(f"simulating {len(tasks)} cells of {wanted.queries} queries"):
        run = run.model_copy(update={"cells": tuple(over_processes(processes)(_simulated, tasks))})
        write_run(out, run)
    return run


def records_of(cell: SimulatedCell) -> Iterator[ClientRecord]:
    """Yield what a client would have recorded: sent on time, 200 or 504."""
    found = cell.found
    for query, (planned, latency, code) in enumerate(
        zip(found.planned.tolist(), found.latency.tolist(), found.outcome.tolist(), strict=True)
    ):
        answered = latency < np.inf
        group = int(found.group[query])
        yield ClientRecord(
            query,
            planned,
            planned,
            planned + latency if answered else planned,
            200 if answered else 504,
            OUTCOMES[code],
            group=group if group >= 0 else None,
            slot=int(found.slot[query]) if group >= 0 else None,
            lateness_ms=round(1e3 * float(found.lateness[query]), 4),
            error="" if answered else "no answer",
        )


def _done_to(faults: Sequence[FaultSettings], servers: Container[str]) -> Iterator[Event]:
    """Yield what was done to the plan's servers, as `faults.inject` would have noted it."""
    for fault in faults:
        if fault.replica in servers:
            yield Event(t=fault.at_s, kind=fault.kind, what=fault.replica)
            if fault.kind in ENDS:
                yield Event(t=fault.at_s + fault.for_s, kind=ENDS[fault.kind], what=fault.replica)


def _simulated(task: _Task) -> Cell:
    """Simulate a cell and write its records."""
    scenario, plan, point, repetition, queries, out = task
    simulated = simulate_cell(scenario, plan, point, repetition, queries)
    found = simulated.found
    cell = Cell(
        **place_of(scenario, plan, point, repetition),
        utilization=round(found.utilisation(), 4),
        utilization_all=round(sum(found.busy_s.values()) / (plan.replicas * found.span_s), 4),
        extra_work=round(found.extra_work, 4),
        replicas=tuple(
            Replica(
                name=server,
                node=server,
                pool=server.split("/")[0],
                busy=round(busy / found.span_s, 4),
                calls=found.calls_by_server[server],
            )
            for server, busy in sorted(found.busy_by_server.items())
        ),
        timeline=tuple(_done_to(scenario.faults, found.busy_by_server)),
    )
    write_cell(out, cell.id, records_of(simulated))
    return cell
