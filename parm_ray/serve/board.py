"""The replicas of each deployment as this process's routers see them.

Ray builds the request router inside the handle, where the driver cannot reach it; the board is how
the router tells the driver who exists. It lives in a module of its own because Ray ships a router's
module by value, and module state must not be copied with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

Listener = Callable[[Mapping[str, str]], None]


class ReplicaBoard:
    """Replica id -> node id of one deployment. Published by the router, read on the driver's loop."""

    def __init__(self) -> None:
        self.nodes: Mapping[str, str] = {}
        self._told = False
        self._listeners: list[tuple[asyncio.AbstractEventLoop, Listener]] = []

    def publish(self, nodes: Mapping[str, str]) -> None:
        """Replace what is known and tell the listeners, each on its own loop. Any thread."""
        self.nodes = dict(nodes)
        self._told = True
        for loop, listener in self._listeners:
            if not loop.is_closed():
                loop.call_soon_threadsafe(listener, self.nodes)

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` on the running loop now and at every change."""
        self._listeners.append((asyncio.get_running_loop(), listener))
        listener(self.nodes)

    def follow(self, listener: Listener) -> None:
        """Call `listener` on the running loop at every change, and now if anything was published yet."""
        self._listeners.append((asyncio.get_running_loop(), listener))
        if self._told:
            listener(self.nodes)


_boards: dict[tuple[str, str], ReplicaBoard] = {}


def board_of(app: str, deployment: str) -> ReplicaBoard:
    """The one board of a deployment in this process."""
    return _boards.setdefault((app, deployment), ReplicaBoard())
