"""One load phase: warm up, read the counters, drive the plan, read the counters again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from load_tests import client, oip
from load_tests.faults import Fault, FaultEvent, SetLink, inject
from load_tests.first_served import first_served
from load_tests.http_target import HttpTarget
from load_tests.records import ClientRecord
from load_tests.server_stats import ServedModel, utilisation
from parm_ray.core import monotonic

# From the decision to start until planned time 0: room to set up tasks.
LEAD_S = 0.2

OnDone = Callable[[client.Reply | client.SendFailed], None]


@dataclass(frozen=True)
class LabelledImages:
    """Labelled queries. images: `[n, *input]` in the model's dtype; labels: `[n]` classes."""

    images: NDArray[np.generic]
    labels: NDArray[np.integer]

    @classmethod
    def load(cls, path: Path) -> LabelledImages:
        """Read `images` and `labels` from an npz file. Raises OSError or KeyError."""
        with np.load(path) as file:
            return cls(file["images"], file["labels"])

    def shuffled(self, n: int, rng: np.random.Generator) -> LabelledImages:
        """n queries: whole shuffled passes over the set, so that every image comes up about equally often."""
        passes = -(-n // len(self.images))
        order = np.concatenate([rng.permutation(len(self.images)) for _ in range(passes)])[:n]
        return LabelledImages(self.images[order], self.labels[order])


@dataclass(frozen=True)
class Phase:
    """What one phase gave. cpu_busy: share of all this machine's cores that worked meanwhile, 0..1.

    unsent: planned queries that a watch kept from being sent; `records` has none of them.
    """

    records: list[ClientRecord]
    before: dict[str, Any]
    after: dict[str, Any]
    cpu_busy: float
    faults: list[FaultEvent]
    unsent: int = 0

    def utilisation(self, pool: str = "deployed") -> float:
        """Busy share of a pool's slots during the phase, 0..1; nan if unknown."""
        return utilisation(self.before, self.after, pool)


async def run_phase(
    model: ServedModel,
    planned: Sequence[float] | NDArray[np.float64],
    queries: LabelledImages,
    *,
    timeout_s: float,
    warm_up: int = 40,
    faults: Sequence[Fault] = (),
    owns: Callable[[int], bool] = lambda pid: False,
    set_link: SetLink | None = None,
    on_done: OnDone | None = None,
    watch: client.Watch | None = None,
) -> Phase:
    """Send query i (image i) at planned[i] seconds and inject the faults on the same time axis.

    `watch` may end the sending early; faults planned for later still happen. Raises SendFailed if no
    warm-up query is answered, NotOurs for a fault aimed at a foreign process.
    """
    times = np.asarray(planned, dtype=np.float64).tolist()
    template = oip.RequestTemplate(model.input.name, model.input.shape, model.input.dtype, model.output.name)
    bodies = [template.body(image) for image in queries.images[: max(len(times), warm_up)]]

    def body(i: int) -> bytes:
        return bodies[i % len(bodies)]

    async with HttpTarget(model.base_url, model.name, template.headers, body, timeout_s) as target:
        await target.warm_up(warm_up)
        before = await asyncio.to_thread(model.stats)
        psutil.cpu_percent()
        start = monotonic() + LEAD_S
        injecting = asyncio.create_task(inject(faults, start=start, owns=owns, set_link=set_link))
        try:
            with first_served():
                shots = await client.open_loop(times, target, start=start, on_done=on_done, watch=watch)
            cpu_busy = psutil.cpu_percent() / 100
            done = await injecting
        finally:
            injecting.cancel()
        after = await asyncio.to_thread(model.stats)
    records = client.to_records(shots, model.output.name, list(queries.labels[: len(shots)]))
    return Phase(records, before, after, cpu_busy, done, len(times) - len(records))
