"""Made-up runs for the tests of `load_tests.experiment`: no system, no simulator, only numpy and a heap.

A first-come-first-served queue in front of `n` replicas, a share of slow calls; a coded plan may answer a
query from its group's parity query. Nothing here says anything about a real system.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from load_tests.experiment.columns import read_cell
from load_tests.experiment.runs import (
    Cell,
    Event,
    Replica,
    Run,
    RunDirectory,
    read_run,
    write_cell,
    write_run,
)
from load_tests.records import ClientRecord
from parm_ray.core import Outcome

SERVICE_S = 0.025
NEEDED = 12


@dataclass(frozen=True)
class MadePlan:
    """A plan of the made-up system; k: its parity queries come from groups of k."""

    name: str
    title: str
    k: int | None = None
    pool: str | None = None
    spare: int = 6
    accuracy: float = 0.92

    @property
    def deployed(self) -> int:
        return NEEDED + (self.spare if self.k is None else 0)


PLANS = (
    MadePlan("none", "No redundancy", spare=0),
    MadePlan("equal_resources", "Equal-Resources"),
    MadePlan("sum_subtract", "Sum, subtraction decoder", 2, "dedicated", accuracy=0.85),
    MadePlan("concat_slot", "Concatenation, slot decoder", 2, "dedicated", accuracy=0.9),
    MadePlan("concat_slot", "Concatenation, slot decoder", 3, "dedicated", 4, accuracy=0.88),
    MadePlan("concat_slot", "Concatenation, slot decoder", 4, "dedicated", 3, accuracy=0.86),
    MadePlan("shared_slot", "Shared pool, slot decoder", 2, "shared", accuracy=0.9),
    MadePlan("shared_slot_hedged", "Shared pool, slot decoder, late hedge", 2, "shared", accuracy=0.9),
    MadePlan("backup", "Approximate backups <small>", 1, "dedicated", accuracy=0.8),
    MadePlan("hedge", "Hedge after p95", spare=6),
    MadePlan("berrut", "Rational interpolation (Berrut)", 4, "dedicated", 4, accuracy=0.7),
    MadePlan("replicated", "Two copies of everything", spare=12),
)


def make_run(
    directory: Path,
    *,
    plans: Sequence[MadePlan] = PLANS[:4],
    loads: Sequence[float] = (0.4, 0.6),
    repetitions: int = 1,
    queries: int = 1000,
    failing: str = "",
    form: str = "parquet",
    seed: int = 0,
) -> RunDirectory:
    """Write a run directory and read it again. `failing`: a plan of which 2 % of the queries fail."""
    cells = []
    for load in loads:
        for repetition in range(repetitions):
            for plan in plans:
                rng = np.random.default_rng([seed, repetition, round(load * 100), sum(map(ord, plan.title))])
                cell, records = _cell(plan, load, repetition, queries, plan.name == failing, rng)
                write_cell(directory, cell.id, records, "csv" if form == "csv" else "parquet")
                cells.append(cell)
    run = Run(
        scenario="made up",
        executor="simulator",
        command="python -m nothing --of-the-kind",
        commit="0000000",
        date="2026-01-01T00:00:00Z",
        machine={"cores": 2, "python": "3.11"},
        settings={"service": {"median_ms": 25, "slow_share": 0.02}, "seed": seed},
        cells=tuple(cells),
    )
    write_run(directory, run)
    return read_run(directory)


def _cell(
    plan: MadePlan, load: float, repetition: int, queries: int, failing: bool, rng: np.random.Generator
) -> tuple[Cell, list[ClientRecord]]:
    rate = load * NEEDED / (SERVICE_S * 1.18)
    planned = np.cumsum(rng.exponential(1 / rate, queries))
    end = float(planned[-1])
    stall = (0.4 * end, 0.45 * end)
    done, calls = _queue(planned, plan.deployed, stall, rng)
    outcome = np.zeros(queries, dtype=int)
    if plan.k is not None:
        whole = queries // plan.k * plan.k
        ready = planned[:whole].reshape(-1, plan.k).max(axis=1)
        parity, _ = _queue(ready, plan.spare, (end, end), rng)
        instead = np.repeat(parity, plan.k) + 0.0005
        stands_in = instead < done[:whole]
        outcome[:whole][stands_in] = 1
        done[:whole][stands_in] = instead[stands_in]
    if failing:
        outcome[rng.random(queries) < 0.02] = 2
    stand_in = Outcome.BACKUP if plan.name == "backup" else Outcome.RECONSTRUCTED
    kinds = (Outcome.ORIGINAL, stand_in, Outcome.FAILED)
    right = rng.random(queries) < np.where(outcome == 1, plan.accuracy, 0.93)
    records = [
        ClientRecord(
            i,
            float(planned[i]),
            float(planned[i] + 2e-4),
            float(done[i]),
            0 if outcome[i] == 2 else 200,
            kinds[outcome[i]],
            predicted=None if outcome[i] == 2 else int(right[i]),
            label=1,
            error="timeout" if outcome[i] == 2 else "",
        )
        for i in range(queries)
    ]
    busy = load * NEEDED / plan.deployed
    replicas = [
        Replica(name=f"deployed#{i}", node=f"node{i % 4}", pool="deployed", busy=min(1, s / end), calls=n)
        for i, (s, n) in enumerate(calls)
    ]
    if plan.k is not None:
        each = queries // plan.k // plan.spare
        replicas += [
            Replica(
                name=f"parity#{i}",
                node=f"node{i % 4}",
                pool="parity0",
                busy=min(1, each / end / 40),
                calls=each,
            )
            for i in range(plan.spare)
        ]
    suffix = f"-k{plan.k}" if plan.k else ""
    cell = Cell(
        id=f"{plan.name}{suffix}-{round(load * 100)}-{repetition}",
        plan=plan.name,
        title=plan.title,
        pool=plan.pool,  # type: ignore[arg-type]
        k=plan.k,
        r=None if plan.k is None else 1,
        rate=rate,
        load=load,
        repetition=repetition,
        m=NEEDED,
        n=NEEDED + plan.spare,
        utilization=busy,
        utilization_all=busy * 0.9,
        extra_work=0.0 if plan.k is None else 1 / plan.k,
        network_bytes=queries * 3000,
        cpu_busy=0.3,
        warm_up=queries // 50,
        replicas=tuple(replicas),
        timeline=(
            Event(t=stall[0], kind="stall", what="deployed#0"),
            Event(t=stall[1], kind="resume", what="deployed#0"),
            Event(t=0.7 * end, kind="shuffle", what="node1 -> node2"),
            Event(t=0.75 * end, kind="shuffle_end", what="node1 -> node2"),
            Event(t=0.9 * end, kind="kill", what="deployed#1"),
        ),
    )
    return cell, records


def _queue(
    arrivals: NDArray[np.float64], servers: int, stall: tuple[float, float], rng: np.random.Generator
) -> tuple[NDArray[np.float64], list[tuple[float, int]]]:
    """First come, first served; replica 0 does nothing during the stall. Ends, and busy seconds and calls."""
    n = len(arrivals)
    service = SERVICE_S * np.exp(0.06 * rng.standard_normal(n)) * np.where(rng.random(n) < 0.02, 10, 1)
    free = [(0.0, i) for i in range(servers)]
    ends, busy = np.empty(n), [[0.0, 0] for _ in range(servers)]
    for i in range(n):
        at, server = heapq.heappop(free)
        begin = max(at, arrivals[i])
        end = begin + service[i]
        if server == 0 and begin < stall[1] and end > stall[0]:
            end += stall[1] - stall[0]
        ends[i] = end
        busy[server][0] += service[i]
        busy[server][1] += 1
        heapq.heappush(free, (end, server))
    return ends, [(seconds, int(calls)) for seconds, calls in busy]


def test_the_made_up_system_has_a_tail_that_coding_cuts(tmp_path: Path) -> None:
    made = make_run(tmp_path, plans=(PLANS[1], PLANS[3]), loads=(0.5,), queries=4000)
    plain, coded = (read_cell(made, cell.id, cell.warm_up) for cell in made.run.cells)
    assert np.quantile(plain.latency, 0.99) > 4 * np.median(plain.latency)
    assert np.quantile(coded.latency, 0.99) < np.quantile(plain.latency, 0.99) / 2
    assert coded.count(Outcome.RECONSTRUCTED) > 40
    assert plain.count(Outcome.RECONSTRUCTED) == 0


def test_the_made_up_system_fails_where_it_is_told_to(tmp_path: Path) -> None:
    made = make_run(tmp_path, plans=PLANS[:2], loads=(0.5,), queries=1000, failing="none")
    failed = [read_cell(made, cell.id, 0).count(Outcome.FAILED) for cell in made.run.cells]
    assert failed[0] == pytest.approx(20, abs=15)
    assert failed[1] == 0
