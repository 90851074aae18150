"""The control plane's loop after a restart: which plan of those that front ends hold it goes on from."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from parm_ray.routing.fleet.snapshot import BadSnapshot, Snapshot
from tests.unit.serve.test_fleet_control_loop import Running, running


async def learned() -> Snapshot:
    """What a control plane published that had penalised C."""
    async with running() as fleet:
        fleet.loop._control.penalties.multipliers["C"] = 0.05
        for name in "ABC":
            fleet.report(name)
        await fleet.decisions(1)
        snapshot = fleet.loop.history[0]
    assert snapshot.penalties["C"][0] == pytest.approx(0.05)
    return snapshot


def bring(fleet: Running, snapshot: Snapshot, age_s: float = 0.1) -> None:
    fleet.loop.recall(snapshot.to_json(), age_s)


async def test_it_goes_on_from_the_newest_plan_that_is_brought() -> None:
    plan = await learned()
    older = replace(plan, version=plan.version - 5, memory=replace(plan.memory, multipliers={"A": 0.5}))
    async with running() as fleet:
        for name, held in (("A", older), ("B", plan), ("C", older)):
            fleet.report(name, have=held.version)
            assert fleet.loop.wants(held.version) == (name != "C")
            if name != "C":
                bring(fleet, held)
        # One that comes unasked changes nothing.
        bring(fleet, older)
        await asyncio.sleep(0.03)
        assert not fleet.loop.history
        await fleet.decisions(plan.version + 1)
        first, second, *_ = fleet.loop.history
        assert (first.version, first.memory) == (plan.version, plan.memory)
        assert second.version > plan.version
        assert second.penalties["C"] == plan.penalties["C"]
        assert "A" not in second.penalties
        # From now on it knows better than any of them.
        assert not fleet.loop.wants(second.version + 100)


async def test_who_has_no_plan_is_asked_for_none() -> None:
    async with running() as fleet:
        assert not fleet.loop.wants(0)


@pytest.mark.parametrize("what", ["damaged", "of another fleet", "long installed", "made long ago"])
async def test_a_plan_that_says_nothing_of_this_fleet_now_is_refused_and_the_next_one_taken(
    what: str,
) -> None:
    plan = await learned()
    text, age_s, error = plan.to_json(), 0.1, "age: expected at most 180 s"
    if what == "damaged":
        text, error = text.replace("0.05", "0.06"), "checksum"
    elif what == "of another fleet":
        text = replace(plan, memory=replace(plan.memory, fleet="0" * 32)).to_json()
        error = "fleet: expected a plan of"
    elif what == "long installed":
        age_s = 181.0
    else:
        text = replace(plan, created=time.time() - 181).to_json()
    async with running() as fleet:
        with pytest.raises(ValueError, match=error) as refused:
            fleet.loop.recall(text, age_s)
        assert isinstance(refused.value, BadSnapshot) == (what == "damaged")
        assert fleet.loop.wants(plan.version)
        bring(fleet, plan)
        await fleet.decisions(1)
        assert fleet.loop.history[0].version == plan.version


async def test_a_plan_made_by_a_clock_that_was_ahead_is_as_old_as_it_has_been_used() -> None:
    plan = replace(await learned(), created=time.time() + 3600)
    async with running() as fleet:
        bring(fleet, plan)
        with pytest.raises(ValueError, match="age"):
            bring(fleet, replace(plan, version=plan.version + 1), 181.0)


async def test_versions_rise_above_what_front_ends_hold_whatever_becomes_of_it() -> None:
    ahead = int((time.time() + 3600) * 1e3)
    async with running() as fleet:
        fleet.report("A", have=ahead)
        await fleet.decisions(1)
        assert fleet.loop.history[0].version == ahead + 1
        fleet.report("B", have=ahead + 1000)
        await fleet.decisions(1000)
        assert fleet.loop.history[-1].version > ahead + 1000


async def test_a_report_that_is_refused_says_nothing_of_versions() -> None:
    async with running() as fleet:
        with pytest.raises(ValueError, match="front_end"):
            fleet.report("D", have=10**15)
        await fleet.decisions(1)
        assert fleet.loop.history[0].version < 10**15
