"""The actor on each node: sends chunks from its node's object store to another one's.

Sent to the nodes as it stands (by value), so that they need no copy of this package: imports nothing of it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

# Bytes that a stream writes and reads at a time.
PIECE = 2**18


class Mover:
    """One per node. Runs its calls in turns on one event loop."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._noise: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._received: Counter[int] = Counter()
        self._stopping = False
        self._server: asyncio.Server | None = None

    async def ready(self) -> str:
        """The id of the node that this runs on."""
        return str(ray.get_runtime_context().get_node_id())

    async def send(self, me: int, peer: Any, sizes: list[int], window: int) -> int:
        """Send chunks of these sizes, `window` under way at a time; return the bytes that arrived.

        Ends early, with what arrived by then, after `stop`. Raises RayActorError if the peer is lost.
        """
        under_way: deque[Any] = deque()
        arrived = 0
        for size in sizes:
            if self._stopping:
                break
            # Put anew each time: a second use of one object would find it on the other node already.
            under_way.append(peer.take.remote(me, ray.put(self._chunk(size))))
            if len(under_way) >= window:
                arrived += await under_way.popleft()
        while under_way:
            arrived += await under_way.popleft()
        return arrived

    async def listen(self) -> tuple[str, int]:
        """Take connections of other nodes' `stream`; return where."""
        if self._server is None:
            host = ray.util.get_node_ip_address()
            self._server = await asyncio.start_server(self._drain, host, 0)
        address = self._server.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    async def stream(self, me: int, address: tuple[str, int], size: int) -> int:
        """Send `size` bytes over one connection; return how many arrived.

        Ends early after `stop`. Raises OSError if the peer is lost, or asyncio.IncompleteReadError.
        """
        reader, writer = await asyncio.open_connection(*address)
        try:
            writer.write(me.to_bytes(4, "big"))
            left = size
            while left > 0 and not self._stopping:
                writer.write(self._chunk(min(left, PIECE)).data)
                await writer.drain()
                left -= PIECE
            writer.write_eof()
            return int.from_bytes(await reader.readexactly(8), "big")
        finally:
            writer.close()

    async def _drain(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a stream to its end, and tell the sender how much came."""
        try:
            sender = int.from_bytes(await reader.readexactly(4), "big")
            arrived = 0
            while piece := await reader.read(PIECE):
                arrived += len(piece)
                self._received[sender] += len(piece)
            writer.write(arrived.to_bytes(8, "big"))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            # The sender is gone, and whoever waits for it hears of that from its own call.
            pass
        finally:
            writer.close()

    async def take(self, sender: int, chunk: NDArray[np.uint8]) -> int:
        """Called once the chunk is in this node's object store. Returns its bytes."""
        self._received[sender] += chunk.nbytes
        return int(chunk.nbytes)

    async def stop(self) -> None:
        """Let every `send` end after the chunks that are under way."""
        self._stopping = True

    async def received(self) -> dict[int, int]:
        """Bytes taken so far, by sender."""
        return dict(self._received)

    def _chunk(self, size: int) -> NDArray[np.uint8]:
        # Random, should anything on the way compress; drawn once, it costs more than sending.
        if size > self._noise.size:
            self._noise = self._rng.integers(0, 256, size, np.uint8)
        return self._noise[:size]
