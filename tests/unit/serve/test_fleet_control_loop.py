"""The control plane's loop: nothing that it hears ends it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from parm_ray.config.fleet_file import FleetSettings
from parm_ray.routing.planes import Report, Seen
from parm_ray.serve.fleet.control_loop import ControlLoop
from parm_ray.serve.fleet.signals import EngineSignals

FILE = Path(__file__).parents[3] / "serve_configs" / "routing" / "three_regions.yaml"


class Asked:
    """Engines that say what they are told to say."""

    def __init__(self) -> None:
        self.says: dict[int, Any] = {}

    async def signals(self, j: int, timeout_s: float) -> Any:
        return self.says.get(j, EngineSignals(1.0))


class Counted:
    """Metrics that are counted."""

    def __init__(self) -> None:
        self.published = self.failures = 0
        self.breaks = False

    def failed(self) -> None:
        self.failures += 1

    def signals(self, engine: str, said: EngineSignals) -> None:
        assert said.ready_share <= 1

    def report(self, snapshot: object) -> None:
        if self.breaks:
            raise RuntimeError("no metrics today")
        self.published += 1


class Running:
    def __init__(self, **control: Any) -> None:
        document = yaml.safe_load(FILE.read_text())
        document["control"] = {"interval_ms": 10, "stale_s": 0.5, "smoothing_s": 0, **control}
        document["data_plane"] = {"pull_ms": 50}
        self.engines, self.metrics = Asked(), Counted()
        self.loop = ControlLoop(FleetSettings.model_validate(document), self.engines, self.metrics)  # type: ignore[arg-type]

    def report(self, front_end: str, replica: str = "0", have: int = 0, **rest: Any) -> None:
        self.loop.take(Report(front_end, replica, 1.0, {"default": 10}, **rest), have)

    async def decisions(self, more: int = 3) -> None:
        """Wait until so many more plans are made, or fail."""
        last = self.loop.history[-1].version if self.loop.history else 0
        for _ in range(500):
            await asyncio.sleep(0.01)
            if self.loop.history and self.loop.history[-1].version >= last + more:
                return
        raise AssertionError(f"no decision in 5 s: {self.loop.failed}")


@contextlib.asynccontextmanager
async def running(**control: Any) -> AsyncIterator[Running]:
    fleet = Running(**control)
    task = asyncio.ensure_future(fleet.loop.run())
    try:
        yield fleet
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_it_waits_for_all_front_ends_and_a_pull_more_for_all_replicas_of_them() -> None:
    async with running() as fleet:
        await asyncio.sleep(0.03)
        assert not fleet.loop.history
        for name in "ABC":
            fleet.report(name, "0")
        # Several intervals, and less than a pull.
        await asyncio.sleep(0.04)
        assert not fleet.loop.history
        for name in "ABC":
            fleet.report(name, "1")
        await fleet.decisions(1)
        assert fleet.loop.history[0].replicas == {"A": 2, "B": 2, "C": 2}


async def test_reports_that_cannot_be_are_refused_at_the_door_and_the_rest_is_heard() -> None:
    async with running() as fleet:
        with pytest.raises(ValueError, match="front_end: D has no demand"):
            fleet.report("D")
        for bad in (Seen(-1), Seen(1, float("nan")), Seen(1, float("inf"))):
            with pytest.raises(ValueError, match="engines: A"):
                fleet.report("A", engines={"A": bad})
        with pytest.raises(ValueError, match="arrivals: default"):
            fleet.loop.take(Report("A", "0", 1.0, {"default": -1}))
        with pytest.raises(ValueError, match="seconds"):
            fleet.loop.take(Report("A", "0", float("nan")))
        for name in "ABC":
            fleet.report(name)
        await fleet.decisions()


@pytest.mark.parametrize(
    "odd", ["well, thank you", {"ready_share": 1}, EngineSignals(float("nan")), EngineSignals(7.0)]
)
async def test_an_engine_that_says_something_else_is_as_good_as_silent(odd: Any) -> None:
    async with running() as fleet:
        fleet.engines.says[1] = odd
        await fleet.decisions()
        assert fleet.loop.failed is None
        assert fleet.loop.history[-1].capacities[1] == pytest.approx(95.0)


async def test_odd_round_trips_are_left_out_one_by_one() -> None:
    async with running(network="measured") as fleet:
        fleet.report("A", network_s={"A": float("nan"), "B": -1.0, "C": 0.001})
        await fleet.decisions()
        assert fleet.loop.history[-1].network_s[0] == pytest.approx([0.002, 0.040, 0.001])


async def test_whatever_breaks_an_interval_the_next_one_comes() -> None:
    async with running() as fleet:
        await fleet.decisions()
        fleet.metrics.breaks = True
        for _ in range(200):
            await asyncio.sleep(0.01)
            if fleet.metrics.failures >= 2:
                break
        assert fleet.loop.failed == "no metrics today"
        fleet.metrics.breaks = False
        await fleet.decisions()
        assert fleet.loop.failed is None


async def test_an_engine_that_has_replicas_again_and_says_nothing_is_as_it_was_declared() -> None:
    async with running() as fleet:
        fleet.engines.says[1] = None
        fleet.loop.replicas(1, 0)
        await fleet.decisions()
        assert fleet.loop.history[-1].capacities[1] == 0
        fleet.loop.replicas(1, 2)
        await fleet.decisions()
        assert fleet.loop.history[-1].capacities[1] == pytest.approx(95.0)
