"""Emulated losses on held pools: one answer of every group comes too late, and nothing stays behind."""

import asyncio

import numpy as np
import pytest

from parm_ray.config.loading import parse_settings
from parm_ray.core import ConfigError, DeadlineExceeded, Outcome
from tests.support.fake_pools import rig, turns


def image(value):
    return np.full((8, 8, 1), value, np.uint8)


def model(batch):
    """The mean over pixels: linear, so that codes of sums decode exactly."""
    return batch.reshape(len(batch), -1).astype(np.float32).mean(1)[:, None]


def left_over(driver):
    pools = driver.pools.values()
    return (
        driver.losses.held,
        driver.machine.open_groups,
        driver.open_queries,
        driver.open_timers,
        sum(p.outstanding + p.queue.queued + p.queue.busy for p in pools),
    )


@pytest.mark.parametrize("k", [2, 3, 4])
async def test_each_group_loses_one_slot_in_turn_and_it_is_reconstructed_then_compared(k):
    r = rig(("sum", "subtract", k, 1), one_loss_per_group=True, replicas=8)
    lost = []
    for group in range(k + 1):
        futures = [r.driver.submit(image(10 * (i + 1)), 60) for i in range(k)]
        await turns()
        for call in r.deployed.calls[-k:]:
            call.answer(model)
        await turns()
        assert sum(not f.done() for f in futures) == 1, "every other answer goes through at once"
        r.parity[0].calls[-1].answer(model)
        answers = await asyncio.gather(*futures)
        lost += [a.slot for a in answers if a.outcome is Outcome.RECONSTRUCTED]
        assert [float(a.output[0]) for a in answers] == pytest.approx([10 * (i + 1) for i in range(k)])
        await turns()
        assert r.observer.comparisons == [(1, 1)] * (group + 1)
        assert left_over(r.driver) == (0, 0, 0, 0, 0)
    assert lost == [*range(k), 0]


async def test_the_replica_is_free_while_the_answer_is_kept_back():
    r = rig(("sum", "subtract", 2, 1), one_loss_per_group=True, replicas=1)
    futures = [r.driver.submit(image(v), 60) for v in (10, 20, 30, 40)]
    for i in range(4):
        await turns()
        r.deployed.calls[i].answer(model)
    await turns()
    assert [f.done() for f in futures] == [False, True, True, False]
    for i in range(2):
        r.parity[0].calls[i].answer(model)
        await turns()
    assert [(await f).outcome.value for f in futures] == [
        "reconstructed",
        "original",
        "original",
        "reconstructed",
    ]
    assert left_over(r.driver) == (0, 0, 0, 0, 0)


async def test_opted_out_queries_lose_nothing():
    r = rig(("sum", "subtract", 2, 1), one_loss_per_group=True)
    for _ in range(2):
        future = r.driver.submit(image(1), 60, protected=False)
        await turns()
        r.deployed.calls[-1].answer(model)
        assert (await future).outcome is Outcome.ORIGINAL
    await turns()
    assert left_over(r.driver) == (0, 0, 0, 0, 0)


async def test_an_answer_without_parity_stays_lost_until_the_deadline_and_leaves_nothing():
    r = rig(("sum", "subtract", 2, 1), one_loss_per_group=True)
    futures = [r.driver.submit(image(v), 0.01) for v in (10, 20)]
    await turns()
    for call in r.deployed.calls:
        call.answer(model)
    r.parity[0].calls[0].fail(ValueError("broken"))
    with pytest.raises(DeadlineExceeded):
        await futures[0]
    assert (await futures[1]).outcome is Outcome.ORIGINAL
    await turns()
    assert left_over(r.driver) == (0, 0, 0, 0, 0)


async def test_an_answer_after_its_deadline_is_not_kept():
    r = rig(("sum", "subtract", 2, 1), one_loss_per_group=True)
    futures = [r.driver.submit(image(v), 0.001) for v in (10, 20)]
    for future in futures:
        with pytest.raises(DeadlineExceeded):
            await future
    for call in [*r.deployed.calls, *r.parity[0].calls]:
        call.answer(model)
    await turns()
    assert left_over(r.driver) == (0, 0, 0, 0, 0)


async def test_a_failed_call_is_not_kept():
    r = rig(("sum", "subtract", 2, 1), one_loss_per_group=True)
    futures = [r.driver.submit(image(v), 60) for v in (10, 20)]
    await turns()
    r.deployed.calls[0].fail(ValueError("broken"))
    r.deployed.calls[1].answer(model)
    r.parity[0].calls[0].answer(model)
    assert [float((await f).output[0]) for f in futures] == pytest.approx([10, 20])
    await turns()
    assert left_over(r.driver) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("model_emulate", "parity_emulate", "kind", "words"),
    [
        ({"lose": "all"}, {}, "coded", r"args\.model\.emulate\.lose"),
        ({}, {"lose": "one_per_group"}, "coded", r"parity\[0\]\.emulate\.lose: expected none"),
        ({"lose": "one_per_group"}, {}, "none", r"model\.emulate\.lose: expected none for plan\.kind none"),
    ],
)
def test_losses_that_make_no_sense_are_refused(model_emulate, parity_emulate, kind, words):
    args = {"model": {"artifact": "a", "emulate": model_emulate}, "plan": {"kind": kind}}
    if kind == "coded":
        args["parity"] = [{"artifact": "p", "emulate": parity_emulate}]
    with pytest.raises(ConfigError, match=words):
        parse_settings(args)
