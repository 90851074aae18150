from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from load_tests.shuffles import actor
from load_tests.shuffles.actor import Mover


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """What was put into the object store: a list, where a reference is the chunk itself."""
    kept: list[np.ndarray] = []

    def put(chunk: np.ndarray) -> np.ndarray:
        kept.append(chunk)
        return chunk

    monkeypatch.setattr(actor, "ray", SimpleNamespace(put=put))
    return kept


class Peer:
    """A Mover behind calls, as a handle is. `most` is how many were ever under way at a time."""

    def __init__(self) -> None:
        self.mover, self.under_way, self.most = Mover(1), 0, 0
        self.gate: asyncio.Event | None = None
        self.take = SimpleNamespace(remote=self._take)

    def _take(self, sender: int, chunk: np.ndarray) -> asyncio.Task[int]:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        return asyncio.create_task(self._answer(sender, chunk))

    async def _answer(self, sender: int, chunk: np.ndarray) -> int:
        if self.gate is not None:
            await self.gate.wait()
        taken = await self.mover.take(sender, chunk)
        self.under_way -= 1
        return taken


async def test_every_byte_arrives_and_is_counted_by_sender() -> None:
    peer = Peer()
    assert await Mover(0).send(4, peer, [100, 100, 30], 2) == 230
    assert await Mover(0).send(5, peer, [7], 2) == 7
    assert await peer.mover.received() == {4: 230, 5: 7}


@pytest.mark.parametrize("window", [1, 3])
async def test_no_more_than_the_window_is_under_way(window: int) -> None:
    peer = Peer()
    await Mover(0).send(0, peer, [10] * 9, window)
    assert peer.most == window


async def test_every_chunk_is_put_anew(store: list[np.ndarray]) -> None:
    await Mover(0).send(0, Peer(), [100, 50, 100], 2)
    assert [chunk.nbytes for chunk in store] == [100, 50, 100]
    assert len(np.unique(store[0])) > 20


async def test_after_stop_what_is_under_way_arrives_and_nothing_else_is_sent() -> None:
    peer, mover = Peer(), Mover(0)
    peer.gate = asyncio.Event()
    sending = asyncio.create_task(mover.send(0, peer, [10] * 100, 3))
    while peer.under_way < 3:
        await asyncio.sleep(0)
    await mover.stop()
    peer.gate.set()
    assert await sending == 30
    assert await peer.mover.received() == {0: 30}


async def test_a_lost_peer_is_an_error_of_the_sender() -> None:
    async def lost() -> Any:
        raise ConnectionError("actor died")

    peer = SimpleNamespace(take=SimpleNamespace(remote=lambda sender, chunk: lost()))
    with pytest.raises(ConnectionError):
        await Mover(0).send(0, peer, [10], 1)
