"""Engines are found, whatever goes wrong meanwhile, and found again as another deployment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from parm_ray.serve.board import board_of
from parm_ray.serve.fleet import engines as module
from parm_ray.serve.fleet.engines import Engines


class Handle:
    """As much of a Serve handle as finding needs."""

    def __init__(self, app: str, deployment: str) -> None:
        self.app_name, self.deployment_name = app, deployment

    def options(self, **_: Any) -> Handle:
        return self


async def until(said: Callable[[], bool]) -> None:
    for _ in range(500):
        if said():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 0.02)


async def test_whatever_goes_wrong_with_one_the_others_are_found_and_it_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = SimpleNamespace(left=3)

    async def find(app: str) -> Any:
        if app == "one" and broken.left:
            broken.left -= 1
            raise RuntimeError("Serve's controller is not there")
        return Handle(app, f"{app}-engine")

    monkeypatch.setattr(module, "find", find)
    counts: dict[int, int] = {}
    engines = Engines(["one", "two"], counts.__setitem__, 1.0)
    task = asyncio.ensure_future(engines.connect())
    await until(lambda: counts == {0: 1, 1: 1})
    assert broken.left == 0
    assert not task.done()
    task.cancel()


async def test_an_application_that_comes_back_as_another_deployment_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = SimpleNamespace(deployment="old")

    async def find(app: str) -> Any:
        return Handle(app, now.deployment)

    monkeypatch.setattr(module, "find", find)
    counts: list[int] = []
    engines = Engines(["again"], lambda _, count: counts.append(count), 1.0)
    task = asyncio.ensure_future(engines.connect())
    await until(lambda: counts == [1])
    board_of("again", "old").publish({"a": "node", "b": "node"})
    board_of("again", "old").publish({})
    await until(lambda: counts == [1, 2, 0])
    now.deployment = "new"
    await until(lambda: counts == [1, 2, 0, 1])
    # What is heard of the old one says nothing any more.
    board_of("again", "old").publish({"a": "node"})
    board_of("again", "new").publish({"a": "node", "b": "node", "c": "node"})
    await until(lambda: counts == [1, 2, 0, 1, 3])
    task.cancel()
