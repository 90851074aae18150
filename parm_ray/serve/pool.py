"""One pool at work: starts queued calls on free replicas and reports how each ended."""

from __future__ import annotations

import asyncio
import contextvars
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parm_ray.core import CallId, Clock, monotonic
from parm_ray.groups.lanes import SHADOW, Lane, is_first, lane_of
from parm_ray.routing import CallQueue, UsedNodes, nowhere
from parm_ray.serve.shadow import Shadows
from parm_ray.serve.transport import ReplicaGone, Transport

Array = NDArray[np.generic]

CALLS_KEPT = 5000
"""Of how many calls per lane it is remembered how long they took."""


class Timed(NamedTuple):
    """One call that left its replica. ended_at: on the pool's clock. seconds: from the start of the call.

    by_itself: it was answered. False: its replica died under it, and all that is known of the time it takes
    is that it is more than that.
    """

    ended_at: float
    seconds: float
    by_itself: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call ended: `outputs`, or `error` and whether the replica died."""

    call: CallId
    outputs: Array | None = None
    error: str = ""
    crashed: bool = False


class Pool:
    """Queue and replicas of one deployment.

    transports: how the calls of each lane reach a replica; one, or several where replicas hold several
    models. low: lanes whose calls start only when slots would stay idle. on_end: called on the loop once
    per started call; on_start: when it starts, None = nobody asks. other_nodes: nodes where members of
    a group run in the other pools, asked when a call is placed. times: the last CALLS_KEPT calls of each
    lane; failed: calls of each lane of which the model raised. shadows: None = no batch is shadowed.
    """

    def __init__(
        self,
        name: str,
        queue: CallQueue[CallId],
        transports: Mapping[Lane, Transport],
        on_end: Callable[[Ended], None],
        clock: Clock = monotonic,
        *,
        low: Collection[Lane] = (),
        on_start: Callable[[CallId], None] | None = None,
        other_nodes: UsedNodes = nowhere,
        shadows: Shadows | None = None,
    ) -> None:
        self.name = name
        self.queue = queue
        self.calls = 0
        self.service_s = 0.05
        self.by_replica: dict[str, tuple[int, float]] = {}
        self.first_pushed, self.first_calls, self.first_busy_s = 0, 0, 0.0
        self.calls_by_lane: defaultdict[Lane, int] = defaultdict(int)
        self._busy_s: defaultdict[Lane, float] = defaultdict(float)
        self.nodes: dict[str, str] = {}
        self.times: defaultdict[Lane, deque[Timed]] = defaultdict(lambda: deque(maxlen=CALLS_KEPT))
        self.failed: defaultdict[Lane, int] = defaultdict(int)
        self._since: dict[CallId, float] = {}
        self._payloads: dict[CallId, Array] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._transports = transports
        self._low = frozenset(low)
        self._on_end = on_end
        self._on_start = on_start
        self._clock = clock
        self._other_nodes = other_nodes
        self.shadows = shadows

    def push(self, call: CallId, payload: Array) -> None:
        """Queue a call and start what can start."""
        self._payloads[call] = payload
        self.first_pushed += is_first(call)
        self.queue.push(call, call.group, low=lane_of(call) in self._low)
        self.pump()

    def holds_low(self, lane: Lane) -> bool:
        """Whether the lane's calls are of low priority here."""
        return lane in self._low

    def use_reserve(self, share: float | None) -> None:
        """Where some calls are of low priority: leave that share of the slots idle, see `Reserve`."""
        if self._low:
            self.queue.reserve(share)
            self.pump()

    def withdraw(self, call: CallId) -> bool:
        """Remove a call that has not started; whether it was there."""
        found = self.queue.withdraw(call)
        if found:
            del self._payloads[call]
        return found

    def set_replicas(self, nodes: Mapping[str, str]) -> None:
        """Take over the list of replicas (id -> node) and start what can start."""
        self.queue.set_replicas(nodes)
        for replica in self.nodes.keys() - nodes.keys():
            for transport in self._transports.values():
                transport.forget(replica)
        # What a long life of dead replicas did is nobody's interest: the page shows those that exist.
        self.by_replica = {name: self.by_replica.get(name, (0, 0.0)) for name in nodes}
        self.nodes = dict(nodes)
        self.pump()

    def pump(self) -> None:
        """Start calls while a replica is free."""
        while (placed := self.queue.start(self._clock(), self._other_nodes)) is not None:
            batch = self._payloads.pop(placed.call)
            self._start(placed.call, placed.replica, batch)
            if self._on_start is not None:
                self._on_start(placed.call)
            if self.shadows is not None:
                self._shadow(self.shadows, placed.call, placed.replica, batch)

    def _start(self, call: CallId, replica: str, batch: Array) -> None:
        self._since[call] = self._clock()
        # A context that belongs to no request: Serve gives the call an id of its own, and a
        # client that disconnects cannot cancel work that its neighbours share.
        loop = asyncio.get_running_loop()
        task = contextvars.Context().run(loop.create_task, self._run(call, replica, batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _shadow(self, shadows: Shadows, call: CallId, replica: str, batch: Array) -> None:
        """Run the batch on another replica, too, if it was drawn and one is idle."""
        if (shadow := shadows.wanted(call, self._clock())) is None:
            return
        other = self.queue.claim(shadow, call.group, replica)
        if other is None:
            shadows.not_sent()
            return
        shadows.sent(shadow)
        self._start(shadow, other, batch)

    async def _run(self, call: CallId, replica: str, batch: Array) -> None:
        crashed, lane = False, lane_of(call)
        try:
            ended = Ended(call, await self._transports[lane].call(replica, batch))
        except ReplicaGone as error:
            crashed = True
            ended = Ended(call, error=f"replica {replica} is gone ({error})", crashed=True)
        except Exception as error:
            ended = Ended(call, error=f"{type(error).__name__}: {error}")
        now = self._clock()
        spent = now - self._since.pop(call)
        if ended.outputs is not None or crashed:
            self.times[lane].append(Timed(now, spent, not crashed))
        else:
            # A model that raised says nothing of how long an answer takes.
            self.failed[lane] += 1
        self._busy_s[lane] += spent
        self.calls_by_lane[lane] += 1
        calls, busy = self.by_replica.get(replica, (0, 0.0))
        if replica in self.by_replica:
            self.by_replica[replica] = calls + 1, busy + spent
        self.calls += 1
        if ended.outputs is not None:
            if is_first(call):
                self.first_calls, self.first_busy_s = self.first_calls + 1, self.first_busy_s + spent
            self.service_s += 0.05 * (spent - self.service_s)
        self.queue.finish(call, replica, crashed=crashed)
        if crashed and (back_at := self.queue.suspend(replica, self._clock())) is not None:
            asyncio.get_running_loop().call_later(back_at - self._clock() + 0.001, self.pump)
        if self.shadows is not None:
            self.shadows.ended(call, now, spent, answered=ended.outputs is not None)
        if lane != SHADOW:
            self._on_end(ended)
        self.pump()

    def running_s(self) -> dict[Lane, list[float]]:
        """For how many seconds the calls that run have been running, by lane."""
        now, running = self._clock(), defaultdict[Lane, list[float]](list)
        for call, since in self._since.items():
            running[lane_of(call)].append(now - since)
        return running

    @property
    def outstanding(self) -> int:
        """Calls that were started and have not ended."""
        return len(self._since)

    @property
    def busy_s(self) -> float:
        """Slot-seconds used so far, running calls included."""
        return sum(self.busy_by_lane().values())

    def busy_by_lane(self) -> dict[Lane, float]:
        """Slot-seconds used so far by the calls of each lane, running ones included."""
        now, busy = self._clock(), dict(self._busy_s)
        for call, since in self._since.items():
            lane = lane_of(call)
            busy[lane] = busy.get(lane, 0.0) + now - since
        return busy

    def wait_s(self) -> float:
        """Rough seconds until a call queued now would start, from the mean service time."""
        return self.service_s * (1 + self.queue.queued) / max(1, self.queue.replicas * self.queue.slots)
