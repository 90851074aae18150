"""One cell of a scenario in the simulator: a plan at a rate, once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parm_ray.codes import make_code
from parm_ray.config.scenario import Scenario, ScenarioPlan
from parm_ray.core import ConfigError
from parm_ray.groups.lanes import BACKUP, DEPLOYED, Lane
from parm_ray.scenarios.service import service_of
from parm_ray.sim import Costs, Outage, PoolSpec, Simulated, simulate


@dataclass(frozen=True)
class SimulatedCell:
    """A cell and what came of it. rate: queries per second; load: the share of m replicas' capacity."""

    plan: ScenarioPlan
    rate: float
    load: float
    repetition: int
    found: Simulated


def simulate_cell(
    scenario: Scenario, plan: ScenarioPlan, point: int, repetition: int, queries: int | None = None
) -> SimulatedCell:
    """Simulate a plan at the scenario's point number `point`; queries: instead of the scenario's.

    All plans of a scenario get the same arrivals, and the same calls of the same server are slow. Raises
    ConfigError as `service_of` does.
    """
    rate, load = scenario.points()[point]
    rng = np.random.default_rng([scenario.seed, repetition, point])
    arrivals = scenario.arrivals.planned(rate, rng, queries or scenario.queries)
    settings = scenario.settings_of(plan)
    code = None
    if plan.plan.kind == "coded":
        code = make_code(plan.plan.encoder, plan.plan.decoder, plan.plan.k, plan.plan.r)
    redundancy = settings.redundancy_plan()
    path = scenario.path
    pools = _pools(scenario, plan, redundancy.idle_reserve, [scenario.seed, repetition, point])
    found = simulate(
        redundancy,
        pools,
        arrivals,
        outages=_outages(scenario, pools),
        code=code,
        costs=Costs(
            encode_s=path.encode_ms / 1e3,
            decode_s=path.decode_ms / 1e3,
            cancel_s=None if path.cancel_ms is None else path.cancel_ms / 1e3,
            overhead_s=path.overhead_ms / 1e3,
        ),
        batch_size=scenario.batch.max_size,
        batch_wait_s=scenario.batch.wait_ms / 1e3,
        max_queued=scenario.queue.max_queued,
        max_queued_parity=plan.plan.max_queued_parity,
        seed=scenario.seed + repetition,
    )
    return SimulatedCell(plan, rate, load, repetition, found)


def _outages(scenario: Scenario, pools: list[PoolSpec]) -> list[Outage]:
    """Return the kills of servers that there are. Raises ConfigError for one that is killed while away."""
    there = {server for pool in pools for server in pool.servers}
    kills = [fault for fault in scenario.faults if fault.kind == "kill" and fault.replica in there]
    until: dict[str, float] = {}
    for kill in sorted(kills, key=lambda kill: kill.at_s):
        if kill.at_s < until.get(kill.replica, 0.0):
            raise ConfigError(f"{scenario.name}: faults: {kill.replica} is killed again before it is back")
        until[kill.replica] = kill.at_s + kill.for_s
    return [Outage(kill.replica, kill.at_s, kill.at_s + kill.for_s) for kill in kills]


def _pools(scenario: Scenario, plan: ScenarioPlan, reserve: float | None, seed: list[int]) -> list[PoolSpec]:
    """Return the plan's pools; seed: the scenario's, then repetition and point."""
    rows: tuple[Lane, ...] = tuple(range(plan.plan.r if plan.plan.kind == "coded" else 0))
    low: tuple[Lane, ...] = ()
    shapes: list[tuple[str, int, tuple[Lane, ...]]] = [("deployed", plan.deployed, (DEPLOYED,))]
    if rows and plan.parity is None:
        shapes, low = [("deployed", plan.deployed, (DEPLOYED, *rows))], rows
    else:
        shapes += [(f"parity{row}", plan.parity or 1, (row,)) for row in rows]
    if plan.backup is not None:
        shapes.append(("backup", plan.backup, (BACKUP,)))
    servers = {name: [f"{name}/{rank}" for rank in range(replicas)] for name, replicas, _ in shapes}
    service = service_of(scenario, [one for pool in servers.values() for one in pool], *seed[1:])
    return [
        PoolSpec(
            servers=servers[name],
            lanes=lanes,
            service=service,
            discipline=scenario.queue.discipline,
            low=low,
            reserve=reserve if low else 0.0,
        )
        for name, _, lanes in shapes
    ]
