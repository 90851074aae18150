"""One cell of a scenario in the simulator: a plan at a rate, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from parm_ray.codes import make_code
from parm_ray.config.scenario import Scenario, ScenarioPlan
from parm_ray.groups.lanes import BACKUP, DEPLOYED, Lane
from parm_ray.sim import Costs, PoolSpec, Service, Simulated, simulate
from parm_ray.workload import IndependentCalls, ServiceTime, poisson

_BLOCK = 4096


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

    All plans of a scenario get the same arrivals, and the same calls of the same server are slow.
    """
    rate, load = scenario.points()[point]
    n = queries or scenario.queries
    arrivals = poisson(rate, np.random.default_rng([scenario.seed, repetition, point]), n=n)
    settings = scenario.settings_of(plan)
    code = None
    if plan.plan.kind == "coded":
        code = make_code(plan.plan.encoder, plan.plan.decoder, plan.plan.k, plan.plan.r)
    redundancy = settings.redundancy_plan()
    path = scenario.path
    found = simulate(
        redundancy,
        _pools(scenario, plan, redundancy.idle_reserve, [scenario.seed, repetition, point]),
        arrivals,
        code=code,
        costs=Costs(
            encode_s=path.encode_ms / 1e3,
            decode_s=path.decode_ms / 1e3,
            cancel_s=None if path.cancel_ms is None else path.cancel_ms / 1e3,
            overhead_s=path.overhead_ms / 1e3,
        ),
        batch_size=scenario.batch.max_size,
        batch_wait_s=scenario.batch.wait_ms / 1e3,
        max_queued_parity=plan.plan.max_queued_parity,
        seed=scenario.seed + repetition,
    )
    return SimulatedCell(plan, rate, load, repetition, found)


def _pools(scenario: Scenario, plan: ScenarioPlan, reserve: float, seed: list[int]) -> list[PoolSpec]:
    service = _service(scenario, seed)

    def pool(name: str, replicas: int, *lanes: Lane, low: tuple[Lane, ...] = ()) -> PoolSpec:
        return PoolSpec(
            servers=[f"{name}/{rank}" for rank in range(replicas)],
            lanes=lanes,
            service=service,
            discipline=scenario.queue.discipline,
            low=low,
            reserve=reserve if low else 0.0,
        )

    rows = tuple(range(plan.plan.r if plan.plan.kind == "coded" else 0))
    if rows and plan.parity is None:
        return [pool("deployed", plan.deployed, DEPLOYED, *rows, low=rows)]
    pools = [pool("deployed", plan.deployed, DEPLOYED)]
    pools += [pool(f"parity{row}", plan.parity or 1, row) for row in rows]
    if plan.backup is not None:
        pools.append(pool("backup", plan.backup, BACKUP))
    return pools


def _service(scenario: Scenario, seed: list[int]) -> Service:
    """Return how long calls take: the model's own time, times the script's factor for that call."""
    which = {DEPLOYED: "deployed", BACKUP: "backup"}
    draws: dict[str, Callable[[], float]] = {}
    for number, name in enumerate(("deployed", "parity", "backup")):
        rng = np.random.default_rng([*seed, 1000 + number])
        draws[name] = _drawn(scenario.service_time(name, rng)).__next__
    script = None
    if scenario.slowness.share > 0:
        slow = scenario.slowness
        script = IndependentCalls(scenario.script_seed(*seed[1:]), slow.share, slow.factor)

    def seconds(server: str, number: int, at: float, lane: Lane) -> float:
        own = draws[which.get(lane, "parity")]()
        return own if script is None else own * script.factor(server, number)

    return seconds


def _drawn(service: ServiceTime) -> Iterator[float]:
    while True:
        yield from service.draw_many(_BLOCK).tolist()
