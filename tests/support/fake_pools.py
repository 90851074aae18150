"""Pools whose replicas are under the test's control: a call ends when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from parm_ray.codes import make_code
from parm_ray.core import Clock, NullObserver
from parm_ray.groups import GroupMachine
from parm_ray.redundancy import RedundancyPlan
from parm_ray.routing import make_queue
from parm_ray.serve.driver import Driver
from parm_ray.serve.losses import OneLossPerGroup
from parm_ray.serve.pool import Pool
from parm_ray.serve.recorder import QueryRecorder


@dataclass
class HeldCall:
    replica: str
    batch: np.ndarray
    future: asyncio.Future

    def answer(self, model: Callable[[np.ndarray], np.ndarray]) -> None:
        self.future.set_result(model(self.batch))

    def fail(self, error: Exception) -> None:
        self.future.set_exception(error)


class HeldTransport:
    """Keeps every call until the test ends it."""

    def __init__(self) -> None:
        self.calls: list[HeldCall] = []

    def forget(self, replica: str) -> None:
        self.forgotten = [*getattr(self, "forgotten", []), replica]

    async def call(self, replica: str, batch: np.ndarray) -> np.ndarray:
        held = HeldCall(replica, batch, asyncio.get_running_loop().create_future())
        self.calls.append(held)
        return await held.future


class Recorder(NullObserver):
    """Remembers records and comparisons."""

    def __init__(self) -> None:
        self.records, self.comparisons = [], []

    def resolved(self, record) -> None:
        self.records.append(record)

    def compared(self, agreed, total) -> None:
        self.comparisons.append((agreed, total))


@dataclass
class Rig:
    driver: Driver
    deployed: HeldTransport
    parity: list[HeldTransport]
    observer: Recorder
    recorder: QueryRecorder | None = None


def rig(
    spec=("concat", "slot", 2, 1),
    *,
    replicas: int = 4,
    max_queued: int = 100,
    default: np.ndarray | None = None,
    batch_size: int = 1,
    recorder: QueryRecorder | None = None,
    one_loss_per_group: bool = False,
    clock: Clock | None = None,
    **plan: float,
) -> Rig:
    """A driver over held pools. `spec` None = plan none. clock: the loop's if none is given."""
    clock = clock or asyncio.get_running_loop().time
    code = make_code(*spec) if spec else None
    settings = {"fill_timeout_s": 30.0, "deadline_s": 60.0, **plan}
    kind, k, r = ("coded", code.k, code.r) if code else ("none", 1, 0)
    machine = GroupMachine(
        RedundancyPlan(kind, k, r, has_default=default is not None, **settings),
        code,
        batch_size=batch_size,
        batch_wait_s=30.0,
    )
    observer = Recorder()
    driver = Driver(
        machine,
        code,
        observer=observer,
        clock=clock,
        max_queued=max_queued,
        default=default,
        recorder=recorder,
    )
    if one_loss_per_group:
        driver.losses = OneLossPerGroup(k, driver.ended, machine.waits)
    transports = {row: HeldTransport() for row in range(-1, r)}
    for row, transport in transports.items():
        on_end = driver.losses.ended if row < 0 and driver.losses else driver.ended
        on_start = driver.started if row < 0 else None
        pool = Pool(f"pool{row}", make_queue(), {row: transport}, on_end, clock, on_start=on_start)
        driver.pools[row] = pool
        driver.pools[row].set_replicas({f"{row}/{i}": f"node{i}" for i in range(replicas)})
    return Rig(driver, transports[-1], [transports[row] for row in range(r)], observer, recorder)


async def turns(n: int = 5) -> None:
    """Let the loop run what is ready; no time passes."""
    for _ in range(n):
        await asyncio.sleep(0)
