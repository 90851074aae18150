"""What an ingress says it has seen: held calls, a clock that the test moves."""

from __future__ import annotations

import json

import numpy as np
import pytest

from parm_ray.core import ManualClock, Outcome, Overloaded
from parm_ray.serve.observations import WINDOW_S, Observations
from parm_ray.serve.transport import ReplicaGone
from tests.support.fake_pools import Rig, rig, turns

IMAGE = np.zeros((4, 4, 1), np.uint8)


def model(batch: np.ndarray) -> np.ndarray:
    return np.zeros((len(batch), 2), np.float32)


def slot_model(batch: np.ndarray) -> np.ndarray:
    return np.zeros((len(batch), 2, 2), np.float32)


class Watched:
    """A rig, its observations, and answers counted as the server's observer counts them."""

    def __init__(self, *spec: object, **more: object) -> None:
        self.clock = ManualClock()
        self.rig: Rig = rig(*spec, clock=self.clock, **more)
        self.answered = {outcome.value: 0 for outcome in Outcome}
        self.rig.observer.resolved = self._resolved  # type: ignore[method-assign]
        self.seen = Observations(self.rig.driver, self.answered, self.clock, "i1")

    def _resolved(self, record) -> None:
        self.answered[record.outcome.value] += 1

    async def ask(self, n: int = 1) -> list:
        futures = [self.rig.driver.submit(IMAGE, 600) for _ in range(n)]
        await turns()
        return futures

    async def pass_s(self, seconds: float) -> None:
        # What was answered before is taken in at the old time.
        await turns()
        self.clock.advance(seconds)


async def test_ended_calls_cut_off_ones_and_those_that_run_are_told_apart() -> None:
    w = Watched(None, replicas=4, crash_retries=0)
    futures = await w.ask(4)
    await w.pass_s(0.25)
    w.rig.deployed.calls[0].answer(model)
    await w.pass_s(0.25)
    w.rig.deployed.calls[1].fail(ReplicaGone("gone"))
    w.rig.deployed.calls[2].fail(ValueError("the model raised"))
    await w.pass_s(1.5)
    calls = w.seen.page()["calls"]["deployed"]
    assert calls == {"seconds": [0.25], "cut_off_s": [0.5], "running_s": [2.0], "failed": 1}
    for future in futures[1:3]:
        assert future.exception()


async def test_queueing_in_the_ingress_is_no_service() -> None:
    w = Watched(None, replicas=1)
    await w.ask(2)
    await w.pass_s(3.0)
    w.rig.deployed.calls[0].answer(model)
    await w.pass_s(0.5)
    w.rig.deployed.calls[1].answer(model)
    await turns()
    assert w.seen.page()["calls"]["deployed"]["seconds"] == [3.0, 0.5]


async def test_parity_calls_are_apart_and_shares_and_rates_are_of_the_window() -> None:
    w = Watched()
    await w.ask(2)
    await w.pass_s(1.0)
    w.rig.deployed.calls[0].answer(model)
    w.rig.parity[0].calls[0].answer(slot_model)
    await turns()
    page = w.seen.page()
    assert page["calls"]["parity0"]["seconds"] == [1.0]
    assert page["calls"]["deployed"]["running_s"] == [1.0]
    assert page["shares"]["reconstructed"] == page["shares"]["original"] == 0.5
    assert page["shares"]["hedged"] == 0
    assert page["rates"] == {"queries": 2.0, "batches": 2.0, "refused": 0.0}
    assert page["pools"]["pool-1"] == {
        "replicas": 4, "slots": 1, "lanes": ["deployed"], "utilisation": 0.5
    }  # fmt: skip
    assert page["plan"]["name"] == "coded k=2"
    assert page["plan"]["fill_timeout_s"] == 30.0
    assert page["window"]["covered_s"] == 1.0
    assert json.loads(json.dumps(page, allow_nan=False)) == page


async def test_what_is_older_than_the_window_is_forgotten() -> None:
    w = Watched(None)
    await w.ask(3)
    w.rig.deployed.calls[0].answer(model)
    await turns()
    for _ in range(2):
        await w.pass_s(WINDOW_S)
        w.seen.tick()
    w.rig.deployed.calls[1].answer(model)
    await turns()
    page = w.seen.page()
    assert page["calls"]["deployed"]["seconds"] == [120.0]
    assert page["window"]["covered_s"] == WINDOW_S
    assert page["rates"]["queries"] == 0
    assert page["shares"]["original"] == 1.0


async def test_ticks_keep_a_window_and_no_more() -> None:
    w = Watched(None)
    for _ in range(500):
        await w.pass_s(1.0)
        w.seen.tick()
    assert len(w.seen._past) <= WINDOW_S + 2


async def test_refused_queries_are_demand_too() -> None:
    w = Watched(None, replicas=1, max_queued=1)
    await w.ask(2)
    with pytest.raises(Overloaded):
        w.rig.driver.admit(3, 1.0)
    await w.pass_s(2.0)
    assert w.seen.page()["rates"] == {"queries": 2.5, "batches": 1.0, "refused": 1.5}


async def test_batches_that_were_sent_again_are_counted_once() -> None:
    w = Watched(None, copies=3)
    await w.ask(2)
    await w.pass_s(1.0)
    assert w.seen.page()["shares"]["hedged"] == 1.0
    assert w.seen.page()["shares"]["original"] is None, "nothing was answered"
