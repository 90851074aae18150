"""From a phase of a real run to a cell of a run directory: counters before and after, turned into shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from load_tests.experiment.runs import Cell, Event, Replica
from load_tests.phase import Phase
from parm_ray.config.scenario import Scenario, ScenarioPlan


def place_of(scenario: Scenario, plan: ScenarioPlan, point: int, repetition: int) -> dict[str, Any]:
    """Return the fields of a cell that say which one it is, whatever carries it out."""
    rate, load = scenario.points()[point]
    coded = plan.plan.kind == "coded"
    return {
        "id": f"{plan.name}-p{point}-r{repetition}",
        "plan": plan.name,
        "title": plan.title or plan.name.replace("_", " "),
        "pool": plan.plan.pool if coded else None,
        "k": plan.plan.k if coded else None,
        "r": plan.plan.r if coded else None,
        "rate": rate,
        "load": load,
        "repetition": repetition,
        "m": scenario.m,
        "n": plan.replicas,
        "warm_up": scenario.warm_up,
    }


def cell_of(
    scenario: Scenario,
    plan: ScenarioPlan,
    *,
    point: int,
    repetition: int,
    phase: Phase,
    network_bytes: int | None = None,
    names: Mapping[int, str] | None = None,
) -> Cell:
    """Return the cell of one phase. names: of the processes that something was done to, by pid."""
    names = names or {}
    seconds = phase.after["time_s"] - phase.before["time_s"]
    return Cell(
        **place_of(scenario, plan, point, repetition),
        utilization=round(phase.utilisation(), 4),
        utilization_all=round(_busy(phase) / (plan.replicas * seconds), 4),
        extra_work=_extra_work(phase),
        network_bytes=network_bytes,
        cpu_busy=round(phase.cpu_busy, 4),
        replicas=tuple(_replicas(phase, seconds)),
        timeline=tuple(
            Event(t=round(event.t, 3), kind=event.kind, what=names.get(event.pid, ""))
            for event in phase.faults
        ),
    )


def _busy(phase: Phase) -> float:
    """Busy slot-seconds of all pools during the phase."""
    pools = phase.after["pools"]
    return sum(_grown(phase, pool, "busy_s") for pool in pools)


def _grown(phase: Phase, pool: str, counter: str) -> float:
    before = phase.before["pools"].get(pool, {}).get(counter, 0.0)
    return float(phase.after["pools"][pool][counter] - before)


def _extra_work(phase: Phase) -> float | None:
    """Busy seconds beyond those of every batch's first call, as a share of them.

    First calls that were never made or not answered count as long as the others on average.
    """
    now, then = phase.after["pools"]["deployed"]["first"], phase.before["pools"]["deployed"]["first"]
    pushed, calls, busy = (now[name] - then[name] for name in ("pushed", "calls", "busy_s"))
    if not calls or not busy:
        return None
    return round(_busy(phase) / (busy * pushed / calls) - 1, 4)


def _replicas(phase: Phase, seconds: float) -> list[Replica]:
    found = []
    for pool, page in phase.after["pools"].items():
        before = phase.before["pools"].get(pool, {}).get("by_replica", {})
        for rank, (name, now) in enumerate(sorted(page["by_replica"].items())):
            then = before.get(name, {"calls": 0, "busy_s": 0.0})
            found.append(
                Replica(
                    name=f"{pool}/{rank}",
                    node=now["node"][:8] or "-",
                    pool=pool,
                    busy=max(0.0, round((now["busy_s"] - then["busy_s"]) / seconds, 4)),
                    calls=max(0, now["calls"] - then["calls"]),
                )
            )
    return found
