"""A whole scenario in the simulator: every plan, point and repetition, over several processes if wanted."""

from __future__ import annotations

from collections.abc import Iterator

from parm_ray.config.scenario import Scenario
from parm_ray.scenarios.cells import SimulatedCell, simulate_cell
from parm_ray.scenarios.rows import Row, row_of
from parm_ray.sim.processes import Map, over_processes


def study(
    scenario: Scenario,
    *,
    processes: int = 1,
    queries: int | None = None,
    spread: Map | None = None,
) -> Iterator[Row]:
    """Yield a row per plan and point as they are done, plans within points.

    processes: how many to use on this machine. spread: what to use instead, say over a Ray cluster;
    it must be able to send a Scenario and get rows. queries: a repetition, instead of the scenario's.
    Raises ConfigError as `simulate_cell` does.
    """
    tasks = [
        (scenario, plan, point, queries)
        for point in range(len(scenario.points()))
        for plan in range(len(scenario.plans))
    ]
    yield from (spread or over_processes(processes))(_row, tasks)


def _row(task: tuple[Scenario, int, int, int | None]) -> Row:
    """One plan at one point, all repetitions."""
    scenario, plan, point, queries = task
    cells: list[SimulatedCell] = [
        simulate_cell(scenario, scenario.plans[plan], point, repetition, queries)
        for repetition in range(scenario.repetitions)
    ]
    return row_of(cells, scenario.warm_up)
