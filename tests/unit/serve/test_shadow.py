"""Shadows on held pools: which replica, when, and what becomes of the pairs."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import numpy as np
import pytest

from parm_ray.core import CallKind, ManualClock, Outcome
from parm_ray.groups.lanes import DEPLOYED, SHADOW
from parm_ray.redundancy import Hedge, Shadow, ShadowDraw
from parm_ray.serve.observations import Observations
from parm_ray.serve.shadow import Shadows
from parm_ray.serve.transport import ReplicaGone
from tests.support.fake_pools import rig, turns

IMAGE = np.zeros((4, 4, 1), np.uint8)


class Always(ShadowDraw):
    """Every batch is drawn; remembers what could not be sent."""

    def __init__(self) -> None:
        super().__init__(Shadow(), random.Random(0))
        self.returned = 0

    def wanted(self, now: float) -> bool:
        return True

    def not_sent(self) -> None:
        self.returned += 1


def model(batch: np.ndarray) -> np.ndarray:
    return np.full((len(batch), 2), 1.0, np.float32)


def lies(batch: np.ndarray) -> np.ndarray:
    """What a shadow answers: nobody may ever see it."""
    return np.full((len(batch), 2), 666.0, np.float32)


def shadowed(*spec: object, draw: ShadowDraw | None = None, **more: object):
    clock, told = ManualClock(), Counter()
    r = rig(*spec, clock=clock, **more)
    pool = r.driver.pools[DEPLOYED]
    pool.shadows = Shadows(draw or Always(), lambda result: told.update([result]))
    pool._transports[SHADOW] = r.deployed
    r.driver.pools[SHADOW] = pool
    return r, clock, told


def pairs_of(r, clock) -> list[list[float]]:
    return Observations(r.driver, {o.value: 0 for o in Outcome}, clock).page()["pairs"]


async def test_a_shadow_runs_on_another_replica_and_its_answer_is_never_used() -> None:
    r, clock, told = shadowed(None, replicas=2)
    future = r.driver.submit(IMAGE, 60)
    await turns()
    first, shadow = r.deployed.calls
    assert first.replica != shadow.replica
    clock.advance(0.5)
    shadow.answer(lies)
    await turns()
    assert not future.done(), "a shadow's answer is nobody's"
    clock.advance(0.5)
    first.answer(model)
    answer = await future
    assert (answer.outcome, float(answer.output[0])) == (Outcome.ORIGINAL, 1.0)
    await turns()
    assert pairs_of(r, clock) == [[1.0, 0.5]]
    assert told == {"paired": 1}
    pool = r.driver.pools[DEPLOYED]
    assert (pool.outstanding, pool.queue.busy, pool.shadows.open) == (0, 0, 0)
    assert r.driver.machine.open_groups == 0


async def test_a_slow_shadow_holds_up_neither_the_answer_nor_the_group() -> None:
    r, clock, _ = shadowed(None, replicas=2)
    future = r.driver.submit(IMAGE, 60)
    await turns()
    r.deployed.calls[0].answer(model)
    await future
    assert r.driver.machine.open_groups == 0
    assert pairs_of(r, clock) == []
    clock.advance(7.0)
    r.deployed.calls[1].answer(lies)
    await turns()
    assert pairs_of(r, clock) == [[0.0, 7.0]]


async def test_no_shadow_while_anybody_waits_or_no_other_replica_is_idle() -> None:
    draw = Always()
    r, _, told = shadowed(None, replicas=2, draw=draw)
    r.driver.pools[DEPLOYED].set_replicas({})
    futures = [r.driver.submit(IMAGE, 60) for _ in range(3)]
    r.driver.pools[DEPLOYED].set_replicas({"a": "n", "b": "m"})
    await turns()
    assert len(r.deployed.calls) == 2, "two that waited, none of it a shadow"
    assert told == {"no_replica": 2}
    assert draw.returned == 2
    for _ in range(3):
        for call in r.deployed.calls:
            if not call.future.done():
                call.answer(model)
        await turns()
    await asyncio.gather(*futures)


async def test_with_several_slots_a_shadow_never_shares_its_first_call_s_replica() -> None:
    from parm_ray.routing import make_queue

    for discipline in ("single", "round_robin", "power_of_two"):
        queue = make_queue(discipline, 4)
        queue.set_replicas({"a": "n"})
        queue.push("first", "g")
        assert queue.start(0.0).replica == "a"
        assert queue.claim("shadow", "g", "a") is None
        queue.set_replicas({"a": "n", "b": "n"})
        assert queue.claim("shadow", "g", "a") == "b"
        assert queue.busy == 2
        queue.finish("shadow", "b")
        assert queue.busy == 1


def test_a_claim_leaves_the_reserve_idle_and_is_no_member_of_its_group() -> None:
    from parm_ray.routing import make_queue

    queue = make_queue("single", 1, reserve=0.5)
    queue.set_replicas({name: name for name in "abcd"})
    queue.push("first", "g")
    queue.start(0.0)
    assert queue.claim("shadow", "g", "a") == "b"
    assert queue.nodes_of("g") == {"a"}
    queue.push("second", "h")
    queue.start(0.0)
    assert queue.claim("another", "h", "c") is None, "one of four would be left idle, two must be"


async def test_where_a_call_is_cut_off_there_is_no_pair() -> None:
    r, clock, told = shadowed(None, replicas=4, crash_retries=0)
    lost, failed, whole = [r.driver.submit(IMAGE, 60) for _ in range(3)]
    await turns()
    by_kind = list(r.deployed.calls)
    assert len(by_kind) == 4, "the third has no replica for its shadow"
    by_kind[0].fail(ReplicaGone("gone"))
    by_kind[1].answer(lies)
    by_kind[2].answer(model)
    by_kind[3].fail(ValueError("raised"))
    await turns()
    for call in r.deployed.calls[4:]:
        call.answer(model)
    await turns()
    assert told["cut_off"] == 2
    assert pairs_of(r, clock) == []
    assert lost.exception()
    assert (await failed).outcome is Outcome.ORIGINAL
    await whole


async def test_a_batch_that_is_hedged_gives_a_whole_pair_so_that_slow_ones_are_not_left_out() -> None:
    """The first call takes 9 s, its hedge answers at 2. Without such pairs all would have a fast first."""
    r, clock, told = shadowed(None, replicas=4, hedge=Hedge("fixed", 0.0, max_hedges=1, budget_ratio=1.0))
    future = r.driver.submit(IMAGE, 60)
    await asyncio.sleep(0.02)
    first, shadow, hedge = r.deployed.calls
    assert len({first.replica, shadow.replica, hedge.replica}) == 3
    clock.advance(2.0)
    hedge.answer(model)
    assert (await future).outcome is Outcome.COPY
    shadow.answer(lies)
    await turns()
    clock.advance(7.0)
    first.answer(model)
    await turns()
    assert pairs_of(r, clock) == [[9.0, 2.0]]
    assert told == {"paired": 1}


async def test_copies_are_not_shadowed_their_first_call_is() -> None:
    r, _, _ = shadowed(None, replicas=6, copies=2)
    r.driver.submit(IMAGE, 60)
    await turns()
    kinds = Counter(call.kind for call in r.driver.pools[DEPLOYED]._since)
    assert kinds == {CallKind.DATA: 1, CallKind.COPY: 1, CallKind.SHADOW: 1}


def test_a_share_is_drawn_within_the_budget() -> None:
    drawn = ShadowDraw(Shadow(0.05, budget_ratio=0.05, budget_floor_per_s=0.0), random.Random(1))
    hits = sum(drawn.wanted(0.01 * n) for n in range(20_000))
    assert 0.035 * 20_000 < hits <= 0.05 * 20_000 + 1
    capped = ShadowDraw(Shadow(0.05, budget_ratio=0.01, budget_floor_per_s=0.0), random.Random(1))
    assert sum(capped.wanted(0.01 * n) for n in range(20_000)) <= 0.01 * 20_000 + 1
    assert not any(ShadowDraw(Shadow(0.0), random.Random(1)).wanted(float(n)) for n in range(1000))


def test_what_could_not_be_sent_costs_no_budget() -> None:
    drawn = ShadowDraw(Shadow(0.05, budget_ratio=0.0, budget_floor_per_s=0.1), random.Random(1))
    for _ in range(500):
        if drawn.wanted(0.0):
            drawn.not_sent()
    assert any(drawn.wanted(0.0) for _ in range(500))


@pytest.mark.parametrize("field", ["share", "budget_ratio"])
def test_more_than_a_twentieth_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        Shadow(**{field: 0.06})
