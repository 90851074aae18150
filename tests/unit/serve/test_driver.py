"""The served driver on held pools: one loop, no Ray, no time passing."""

import asyncio

import numpy as np
import pytest

from parm_ray.core import DeadlineExceeded, ModelFailed, Outcome, Overloaded
from parm_ray.serve.transport import ReplicaGone
from tests.support.fake_pools import rig, turns


def image(value):
    return np.full((4, 4, 1), value, np.uint8)


def model(batch):
    """Two outputs: the mean and its negative; linear, so that codes of sums decode exactly."""
    mean = batch.reshape(len(batch), -1).astype(np.float32).mean(1)
    return np.stack([mean, -mean], 1)


def slot_model(batch):
    """What an ideal parity model for two stacked halves answers: [b, 2, 2]."""
    return np.stack([model(batch[:, :2]), model(batch[:, 2:])], 1)


def left_over(driver):
    return (
        driver.machine.open_groups,
        driver.open_queries,
        driver.open_timers,
        len(driver.payloads.groups),
        sum(p.outstanding + p.queue.queued + p.queue.busy for p in driver.pools.values()),
    )


async def test_originals_win_and_a_queued_parity_is_withdrawn():
    r = rig()
    r.driver.pools[0].set_replicas({})
    futures = [r.driver.submit(image(v), 60) for v in (10, 20)]
    await turns()
    assert r.driver.pools[0].queue.queued == 1
    for call in r.deployed.calls:
        call.answer(model)
    answers = await asyncio.gather(*futures)
    assert [a.outcome for a in answers] == [Outcome.ORIGINAL] * 2
    assert [float(a.output[0]) for a in answers] == [10, 20]
    assert [a.slot for a in answers] == [0, 1]
    await turns()
    assert left_over(r.driver) == (0, 0, 0, 0, 0)


async def test_a_slow_answer_is_reconstructed_then_compared_when_it_comes():
    r = rig()
    futures = [r.driver.submit(image(v), 60) for v in (10, 20)]
    await turns()
    r.deployed.calls[0].answer(model)
    r.parity[0].calls[0].answer(slot_model)
    answers = await asyncio.gather(*futures)
    assert [a.outcome for a in answers] == [Outcome.ORIGINAL, Outcome.RECONSTRUCTED]
    assert float(answers[1].output[0]) == pytest.approx(20)
    assert left_over(r.driver)[0] == 1
    r.deployed.calls[1].answer(model)
    await turns()
    assert r.observer.comparisons == [(1, 1)]
    assert left_over(r.driver) == (0, 0, 0, 0, 0)


async def test_slot_decoding_recovers_both_and_subtraction_waits_for_the_other():
    slots = rig()
    futures = [slots.driver.submit(image(v), 60) for v in (10, 20)]
    await turns()
    slots.parity[0].calls[0].answer(slot_model)
    assert [a.outcome.value for a in await asyncio.gather(*futures)] == ["reconstructed"] * 2

    sums = rig(("sum", "subtract", 2, 1))
    futures = [sums.driver.submit(image(v), 60) for v in (10, 200)]
    await turns()
    sums.parity[0].calls[0].answer(model)
    await turns()
    assert not any(f.done() for f in futures)
    sums.deployed.calls[0].answer(model)
    answer = await futures[1]
    assert answer.outcome is Outcome.RECONSTRUCTED
    assert float(answer.output[0]) == pytest.approx(200)
    assert sums.parity[0].calls[0].batch.dtype == np.uint16


async def test_a_dead_replica_costs_neither_the_query_nor_its_neighbour():
    r = rig(crash_retries=1)
    futures = [r.driver.submit(image(v), 60) for v in (10, 20)]
    await turns()
    dead = r.deployed.calls[0].replica
    r.deployed.calls[0].fail(ReplicaGone("killed"))
    await turns()
    retried = r.deployed.calls[2]
    assert retried.replica != dead
    retried.answer(model)
    r.deployed.calls[1].answer(model)
    assert [a.outcome for a in await asyncio.gather(*futures)] == [Outcome.ORIGINAL] * 2
    assert [record.attempts for record in r.observer.records] == [2, 1]


async def test_without_redundancy_a_query_fails_after_its_last_attempt():
    r = rig(None, crash_retries=1)
    future = r.driver.submit(image(1), 60)
    for attempt in range(2):
        await turns()
        r.deployed.calls[attempt].fail(ReplicaGone("killed"))
    with pytest.raises(ModelFailed, match="killed"):
        await future
    assert left_over(r.driver) == (0, 0, 0, 0, 0)


async def test_a_model_error_waits_for_the_parity_and_only_then_fails():
    r = rig()
    futures = [r.driver.submit(image(v), 60) for v in (10, 20)]
    await turns()
    r.deployed.calls[0].fail(ValueError("bad weights"))
    await turns()
    assert not futures[0].done()
    r.parity[0].calls[0].fail(ValueError("bad too"))
    with pytest.raises(ModelFailed, match="bad weights"):
        await futures[0]
    r.deployed.calls[1].answer(model)
    assert (await futures[1]).outcome is Outcome.ORIGINAL


async def test_deadlines_end_queries_with_the_default_answer_or_an_error():
    r = rig(None)
    late = r.driver.submit(image(1), 0.001)
    with pytest.raises(DeadlineExceeded):
        await late
    assert r.driver.open_queries == 0
    assert left_over(r.driver)[0] == 1, "the running call is still accounted for"
    r.deployed.calls[0].answer(model)
    await turns()
    assert left_over(r.driver) == (0, 0, 0, 0, 0)

    r = rig(None, default=np.array([0.5, 0.5], np.float32))
    answer = await r.driver.submit(image(1), 0.001)
    assert answer.outcome is Outcome.DEFAULT
    assert answer.output.tolist() == [0.5, 0.5]


async def test_the_queue_is_bounded_and_late_queries_are_refused_at_the_door():
    r = rig(None, replicas=1, max_queued=2)
    for v in range(3):
        r.driver.admit(1, 60)
        r.driver.submit(image(v), 60)
    with pytest.raises(Overloaded) as refused:
        r.driver.admit(1, 60)
    assert refused.value.retry_after_s > 0
    with pytest.raises(DeadlineExceeded):
        r.driver.admit(1, 0.0)
    with pytest.raises(DeadlineExceeded):
        r.driver.admit(1, -5.0)


async def test_a_client_that_leaves_takes_nothing_from_its_neighbour():
    r = rig()
    first, second = (r.driver.submit(image(v), 60) for v in (10, 20))
    await turns()
    first.cancel()
    await turns()
    r.parity[0].calls[0].answer(slot_model)
    answer = await second
    assert answer.outcome is Outcome.RECONSTRUCTED
    assert float(answer.output[0]) == pytest.approx(20)
    for call in r.deployed.calls:
        call.answer(model)
    await turns()
    assert left_over(r.driver) == (0, 0, 0, 0, 0)


async def test_opting_out_joins_no_group():
    r = rig()
    out = r.driver.submit(image(1), 60, protected=False)
    protected = [r.driver.submit(image(v), 60) for v in (2, 3)]
    await turns()
    assert len(r.parity[0].calls) == 1
    for call in r.deployed.calls:
        call.answer(model)
    groups = [(await f).group for f in (out, *protected)]
    assert groups[0] != groups[1] == groups[2]


async def test_a_group_closed_early_is_protected_with_the_slots_it_has():
    r = rig(fill_timeout_s=0.001)
    future = r.driver.submit(image(30), 60)
    while not r.parity[0].calls:
        await asyncio.sleep(0.001)
    batch = r.parity[0].calls[0].batch
    assert (batch[0, 2:] == 0).all(), "the empty slot holds the fill"
    r.parity[0].calls[0].answer(slot_model)
    answer = await future
    assert (answer.outcome, float(answer.output[0])) == (Outcome.RECONSTRUCTED, pytest.approx(30))


async def test_batches_of_unequal_length_are_encoded_row_by_row():
    r = rig(("sum", "subtract", 2, 1), batch_size=3)
    futures = [r.driver.submit(image(v), 60) for v in (1, 2, 3, 40)]
    r.driver.flush()
    await turns()
    assert [len(c.batch) for c in r.deployed.calls] == [3, 1]
    r.deployed.calls[1].answer(model)
    r.parity[0].calls[0].answer(model)
    answers = await asyncio.gather(*futures)
    assert [float(a.output[0]) for a in answers] == pytest.approx([1, 2, 3, 40])
    assert [a.outcome.value for a in answers] == ["reconstructed"] * 3 + ["original"]


async def test_long_encodings_leave_the_loop_and_come_back(monkeypatch):
    monkeypatch.setattr("parm_ray.serve.coding.INLINE_BYTES", 0)
    r = rig()
    futures = [r.driver.submit(image(v), 60) for v in (10, 20)]
    while not r.parity[0].calls:
        await asyncio.sleep(0.001)
    r.parity[0].calls[0].answer(slot_model)
    answers = await asyncio.gather(*futures)
    assert [float(a.output[0]) for a in answers] == pytest.approx([10, 20])
    for call in r.deployed.calls:
        call.answer(model)
    await turns()
    assert left_over(r.driver) == (0, 0, 0, 0, 0)


async def test_a_decoder_that_raises_leaves_the_query_to_its_own_answer():
    r = rig()
    futures = [r.driver.submit(image(v), 60) for v in (10, 20)]
    await turns()
    r.parity[0].calls[0].answer(lambda batch: np.zeros((1, 7), np.float32))
    await turns()
    assert not any(f.done() for f in futures)
    for call in r.deployed.calls:
        call.answer(model)
    assert [a.outcome.value for a in await asyncio.gather(*futures)] == ["original"] * 2
    await turns()
    assert left_over(r.driver) == (0, 0, 0, 0, 0)
