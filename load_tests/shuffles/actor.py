"""The actor on each node: sends chunks from its node's object store to another one's.

Sent to the nodes as it stands (by value), so that they need no copy of this package: imports nothing of it.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray


class Mover:
    """One per node. Runs its calls in turns on one event loop."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._noise: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._received: Counter[int] = Counter()
        self._stopping = False

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
