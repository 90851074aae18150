"""One simulated run: a plan, pools, planned arrivals in; what became of every query out."""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parm_ray.core import Outcome
from parm_ray.groups import GroupMachine
from parm_ray.groups.lanes import BACKUP, DEPLOYED, Lane
from parm_ray.groups.terms import Recoverer, unfit
from parm_ray.redundancy import RedundancyPlan
from parm_ray.routing.room import pair, room, spare
from parm_ray.sim.driver import OUTCOMES, SimDriver
from parm_ray.sim.pool import PoolSpec, SimPool
from parm_ray.sim.timers import Agenda

Times = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Outage:
    """A server that dies at `at` seconds with what it runs; `back` = when it is there again, None = never."""

    server: str
    at: float
    back: float | None = None


@dataclass(frozen=True)
class Costs:
    """What is neither queueing nor service; seconds.

    encode_s, decode_s: of one group. cancel_s: for how long a server stays busy after a running call was
    called off; None = calls cannot be stopped once they run (a forward pass cannot). overhead_s: added to
    every latency: what the way to the replica and back costs.
    """

    encode_s: float = 0.0
    decode_s: float = 0.0
    cancel_s: float | None = None
    overhead_s: float = 0.0


@dataclass(frozen=True)
class Simulated:
    """What became of every query; arrays `[n]`, in the order of arrival.

    planned, latency: seconds; latency is inf for a failed query. outcome: an index into
    `sim.driver.OUTCOMES`. busy_s, calls: by lane, over all servers. span_s: from the first arrival to the
    end of the last call. pools: the lanes and the slots of each. first: first calls that were made, that
    were answered, and the seconds of the latter.
    """

    planned: Times
    latency: Times
    outcome: NDArray[np.int8]
    group: NDArray[np.int64]
    slot: NDArray[np.int64]
    lateness: Times
    busy_s: dict[Lane, float]
    calls: dict[Lane, int]
    pools: tuple[tuple[tuple[Lane, ...], int], ...]
    first: tuple[int, int, float]
    busy_by_server: dict[str, float] = field(default_factory=dict)
    calls_by_server: dict[str, int] = field(default_factory=dict)
    span_s: float = 0.0

    def share(self, outcome: Outcome, skip: int = 0) -> float:
        """Share of the queries after the first `skip` that ended so."""
        return float((self.outcome[skip:] == OUTCOMES.index(outcome)).mean())

    def utilisation(self, lane: Lane = DEPLOYED) -> float:
        """Busy share of the slots of the pool that takes `lane`, all its lanes together."""
        lanes, slots = next(pool for pool in self.pools if lane in pool[0])
        return sum(self.busy_s[one] for one in lanes) / (slots * self.span_s)

    @property
    def extra_work(self) -> float:
        """Busy seconds beyond those of every batch's first call, as a share of them.

        First calls that were withdrawn or stopped count as long as the others on average.
        """
        pushed, calls, busy = self.first
        return sum(self.busy_s.values()) / (busy * pushed / calls) - 1 if calls and busy else 0.0


def simulate(
    plan: RedundancyPlan,
    pools: Sequence[PoolSpec],
    planned: Times,
    *,
    code: Recoverer | None = None,
    costs: Costs | None = None,
    outages: Sequence[Outage] = (),
    changes: Sequence[tuple[float, RedundancyPlan]] = (),
    batch_size: int = 1,
    batch_wait_s: float = 0.0,
    max_queued: int = 1_000_000,
    max_queued_parity: int = 64,
    seed: int = 0,
) -> Simulated:
    """Run the group machine and the pools in virtual time until everything has ended.

    plan, code: as for `GroupMachine`. pools: each lane of the plan in exactly one of them. planned:
    arrival times, seconds, ascending. changes: (seconds, plan) in ascending order: what begins from then on
    begins under that plan; pools and code are there from the start for all of them. max_queued,
    max_queued_parity: batches that may wait, beyond which queries are refused and groups get no parity.
    seed: of the queues that draw. Raises ValueError for lanes or a code that do not fit the plans, or times
    that are not ascending.
    """
    if len(planned) and (np.diff(planned).min(initial=0.0) < 0 or planned[0] < 0):
        raise ValueError("planned: expected ascending times >= 0 seconds")
    plans = [plan, *(after for _, after in changes)]
    _check_changes(changes, code)
    _check_lanes(plans, pools)
    costs = costs or Costs()
    agenda = Agenda()
    machine = GroupMachine(
        plan,
        code,
        batch_size=batch_size,
        batch_wait_s=batch_wait_s,
        grant=lambda: room(driver.parity_queues(), max_queued_parity),
        spare=lambda share: spare(driver.parity_queues(), share),
        idle=lambda share: pair(driver.pools[DEPLOYED].queue, share),
    )
    driver = SimDriver(
        machine,
        agenda,
        planned,
        encode_s=costs.encode_s,
        decode_s=costs.decode_s,
        max_queued=max_queued,
    )
    made: list[SimPool] = []
    wants_starts = any(one.wants_starts for one in plans)
    for number, spec in enumerate(pools):
        pool = SimPool(
            spec,
            agenda,
            random.Random(f"{seed}/{number}"),
            on_end=driver.ended,
            on_start=driver.started if wants_starts and DEPLOYED in spec.lanes else None,
            cancel_s=costs.cancel_s,
            other_nodes=lambda group, me=number: _elsewhere(made, me, group),  # type: ignore[misc]
        )
        made.append(pool)
        driver.pools.update(dict.fromkeys(spec.lanes, pool))
    _check_outages(outages)
    for outage in outages:
        _plan_outage(agenda, made, outage)
    for at, after in changes:
        agenda.plan(at, driver.use, after)
    driver.run()
    return _simulated(driver, made, costs.overhead_s)


def _check_lanes(plans: Sequence[RedundancyPlan], pools: Sequence[PoolSpec]) -> None:
    wanted: set[Lane] = {DEPLOYED}
    for plan in plans:
        wanted |= {*range(plan.r), *([BACKUP] if plan.backup else [])}
    got = [lane for pool in pools for lane in pool.lanes]
    if set(got) != wanted or len(set(got)) < len(got):
        raise ValueError(f"pools: expected lanes {sorted(wanted)}, each once, got {sorted(got)}")


def _check_changes(changes: Sequence[tuple[float, RedundancyPlan]], code: Recoverer | None) -> None:
    before = 0.0
    for at, plan in changes:
        if not at >= before:
            raise ValueError(f"changes: expected ascending times >= 0 seconds, got {at} after {before}")
        if why := unfit(plan, code):
            raise ValueError(f"changes: at {at} s: {why}")
        before = at


def _elsewhere(pools: Sequence[SimPool], me: int, group: Hashable) -> set[str]:
    if len(pools) == 1:
        return set()
    return {node for n, pool in enumerate(pools) if n != me for node in pool.queue.nodes_of(group)}


def _check_outages(outages: Sequence[Outage]) -> None:
    until: dict[str, float] = {}
    for outage in sorted(outages, key=lambda outage: outage.at):
        end = math.inf if outage.back is None else outage.back
        if not 0 <= outage.at < end:
            raise ValueError(f"outages: {outage.server}: expected 0 <= at < back, got {outage}")
        if outage.at < until.get(outage.server, 0.0):
            raise ValueError(f"outages: {outage.server}: two at once, the second from {outage.at} s")
        until[outage.server] = end


def _plan_outage(agenda: Agenda, pools: Sequence[SimPool], outage: Outage) -> None:
    found = [pool for pool in pools if outage.server in pool.spec.servers]
    if not found:
        raise ValueError(f"outages: no server {outage.server!r}")
    (pool,) = found
    index = list(pool.spec.servers).index(outage.server)
    node = (pool.spec.nodes or pool.spec.servers)[index]
    agenda.plan(outage.at, pool.fail, outage.server)
    if outage.back is not None:
        agenda.plan(outage.back, lambda server: pool.revive(server, node), outage.server)


def _simulated(driver: SimDriver, pools: Sequence[SimPool], overhead_s: float) -> Simulated:
    failed = driver.outcome == OUTCOMES.index(Outcome.FAILED)
    latency = np.where(failed, np.inf, driver.resolved - driver.planned + overhead_s)
    busy: dict[Lane, float] = {}
    calls: dict[Lane, int] = {}
    for pool in pools:
        for lane in pool.spec.lanes:
            busy[lane], calls[lane] = pool.busy_s[lane], pool.calls[lane]
    return Simulated(
        planned=driver.planned,
        latency=latency,
        outcome=driver.outcome,
        group=driver.group,
        slot=driver.slot,
        lateness=driver.lateness,
        busy_s=busy,
        calls=calls,
        pools=tuple((tuple(p.spec.lanes), len(p.spec.servers) * p.spec.slots) for p in pools),
        first=(
            sum(pool.first_pushed for pool in pools),
            sum(pool.first_calls for pool in pools),
            sum(pool.first_busy_s for pool in pools),
        ),
        busy_by_server={name: s for pool in pools for name, s in pool.busy_by_server.items()},
        calls_by_server={name: n for pool in pools for name, n in pool.calls_by_server.items()},
        span_s=driver.last_end - float(driver.planned[0]) if len(driver.planned) else 0.0,
    )
