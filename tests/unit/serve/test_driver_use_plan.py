"""The served driver under another plan: what it can change to, and what goes on as it began."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from parm_ray.core import InvalidInput, ManualClock, Outcome
from parm_ray.groups.lanes import DEPLOYED
from parm_ray.redundancy import Hedge, RedundancyPlan
from parm_ray.routing import make_queue
from tests.support.fake_pools import rig, turns
from tests.unit.serve.test_driver import image, left_over, model, slot_model

NONE = RedundancyPlan()
CODED = RedundancyPlan("coded", k=2, r=1, fill_timeout_s=30.0)
COPIES = RedundancyPlan("replicated", copies=2)


async def test_the_open_group_is_protected_as_it_began_and_the_next_query_is_alone() -> None:
    r = rig()
    first = r.driver.submit(image(10), 60)
    r.driver.use(NONE)
    second = r.driver.submit(image(20), 60)
    await turns()
    assert len(r.deployed.calls) == 2
    assert len(r.parity[0].calls) == 1
    r.parity[0].calls[0].answer(slot_model)
    answer = await first
    assert (answer.outcome, float(answer.output[0])) == (Outcome.RECONSTRUCTED, 10.0)
    assert not second.done()
    for call in r.deployed.calls:
        call.answer(model)
    assert (await second).outcome is Outcome.ORIGINAL
    await turns()
    assert r.observer.comparisons == [(1, 1)]
    assert left_over(r.driver) == (0, 0, 0, 0, 0)


async def test_coding_off_and_on_again() -> None:
    r = rig()
    r.driver.use(NONE)
    alone = r.driver.submit(image(5), 60)
    r.driver.use(CODED)
    pair = [r.driver.submit(image(v), 60) for v in (10, 20)]
    await turns()
    assert len(r.parity[0].calls) == 1
    r.parity[0].calls[0].answer(slot_model)
    assert [a.outcome for a in await asyncio.gather(*pair)] == [Outcome.RECONSTRUCTED] * 2
    for call in r.deployed.calls:
        call.answer(model)
    assert float((await alone).output[0]) == 5
    await turns()
    assert left_over(r.driver) == (0, 0, 0, 0, 0)


async def test_a_server_that_began_without_hedges_hears_of_starts_when_it_needs_to() -> None:
    clock = ManualClock()
    r = rig(None, clock=clock)
    r.driver.use(RedundancyPlan("hedged", hedge=Hedge("fixed", 0.0, max_hedges=1, budget_ratio=1.0)))
    future = r.driver.submit(image(7), 60)
    await asyncio.sleep(0.02)
    assert len(r.deployed.calls) == 2
    r.deployed.calls[1].answer(model)
    assert (await future).outcome is Outcome.COPY
    r.deployed.calls[0].answer(model)
    await turns()
    assert left_over(r.driver) == (0, 0, 0, 0, 0)


async def test_deadline_default_and_retries_stay_the_server_s() -> None:
    r = rig(None, default=np.zeros(2, np.float32), crash_retries=4, deadline_s=7.0)
    r.driver.use(RedundancyPlan("replicated", copies=2, deadline_s=1e9, crash_retries=0))
    plan = r.driver.machine.plan
    assert (plan.kind, plan.copies) == ("replicated", 2)
    assert (plan.deadline_s, plan.has_default, plan.crash_retries) == (7.0, True, 4)


async def test_a_full_queue_refuses_by_what_the_new_plan_sends() -> None:
    from parm_ray.core import Overloaded

    r = rig(None, max_queued=1)
    r.driver.admit(1, 1.0)
    r.driver.use(COPIES)
    with pytest.raises(Overloaded):
        r.driver.admit(1, 1.0)


async def test_a_plan_that_leaves_more_idle_is_heard_by_the_shared_queue() -> None:
    r = rig()
    pool = r.driver.pools[DEPLOYED]
    pool.queue = make_queue("single", 1, reserve=0.0)
    pool.set_replicas({name: name for name in "abc"})
    pool._low, pool._transports[0] = frozenset({0}), r.parity[0]
    r.driver.pools[0] = pool
    r.driver.use(RedundancyPlan("coded", k=2, r=1, fill_timeout_s=30.0, idle_reserve=0.5))
    futures = [r.driver.submit(image(v), 60) for v in (10, 20)]
    await turns()
    assert (pool.queue.queued_low, len(r.parity[0].calls)) == (1, 0)
    r.driver.use(RedundancyPlan("coded", k=2, r=1, fill_timeout_s=30.0, idle_reserve=0.0))
    await turns()
    assert len(r.parity[0].calls) == 1, "what waits starts as soon as it may"
    for call in [*r.deployed.calls]:
        call.answer(model)
    r.parity[0].calls[0].answer(slot_model)
    await asyncio.gather(*futures)


@pytest.mark.parametrize(
    ("spec", "plan", "words"),
    [
        (None, CODED, "plan.code: expected a decoder"),
        (("concat", "slot", 2, 1), RedundancyPlan("coded", k=4, r=1), r"plan.k: expected 2, .*got 4"),
        (("concat", "slot", 2, 1), RedundancyPlan("coded", k=2, r=2), r"plan.r: expected 1, .*got 2"),
        (None, RedundancyPlan("backup", backup=True), "plan.backup: .*backup pool"),
    ],
)
async def test_what_it_has_no_pools_for_is_refused_and_nothing_changes(spec, plan, words) -> None:
    r = rig(spec)
    before = r.driver.machine.plan
    with pytest.raises(InvalidInput, match=words):
        r.driver.use(plan)
    assert r.driver.machine.plan is before


async def test_emulated_losses_keep_their_plan() -> None:
    r = rig(one_loss_per_group=True)
    with pytest.raises(InvalidInput, match=r"emulate\.lose"):
        r.driver.use(NONE)
