"""A simulated pool: the queue that the server uses, and servers that take virtual time."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from parm_ray.core import CallId
from parm_ray.groups.lanes import Lane, is_first, lane_of
from parm_ray.routing import CallQueue, UsedNodes, make_queue, nowhere
from parm_ray.sim.timers import Agenda

Service = Callable[[str, int, float, CallId], float]
"""Seconds that call number n (from 0) of a server takes if it begins at t seconds: (server, n, t, call)."""


End = Literal["answered", "cancelled", "crashed"]


@dataclass(frozen=True)
class PoolSpec:
    """One pool. servers: names; each is a node of its own unless `nodes` gives one for each.

    lanes: whose calls it takes. service: how long they take. discipline, slots: see `routing.make_queue`.
    low: lanes of low priority; reserve: the share of all slots that starting one of theirs leaves idle,
    None = as the load needs. on_push: told of every call that is sent to the pool, before it waits.
    """

    servers: Sequence[str]
    lanes: Sequence[Lane]
    service: Service
    discipline: str = "single"
    slots: int = 1
    low: Sequence[Lane] = ()
    reserve: float | None = 0.0
    nodes: Sequence[str] | None = None
    on_push: Callable[[CallId], None] | None = None


@dataclass(slots=True)
class _Running:
    server: str
    since: float
    ends: float
    lost: bool = False


class SimPool:
    """Carries calls out in virtual time.

    on_start, on_end: called with a call that leaves its queue (None = nobody asks), and with one that has
    ended and how. cancel_s: None = a running call cannot be stopped; else the seconds for
    which its server stays busy after one was.
    """

    def __init__(
        self,
        spec: PoolSpec,
        agenda: Agenda,
        rng: random.Random,
        *,
        on_end: Callable[[CallId, End], None],
        on_start: Callable[[CallId], None] | None = None,
        cancel_s: float | None = None,
        other_nodes: UsedNodes = nowhere,
    ) -> None:
        self.spec = spec
        self.queue: CallQueue[CallId] = make_queue(spec.discipline, spec.slots, reserve=spec.reserve, rng=rng)
        nodes = spec.nodes or spec.servers
        self._nodes = dict(zip(spec.servers, nodes, strict=True))
        self.queue.set_replicas(self._nodes)
        self.busy_s: defaultdict[Lane, float] = defaultdict(float)
        self.calls: defaultdict[Lane, int] = defaultdict(int)
        self.first_pushed, self.first_calls, self.first_busy_s = 0, 0, 0.0
        self.busy_by_server: defaultdict[str, float] = defaultdict(float)
        self.calls_by_server: defaultdict[str, int] = defaultdict(int)
        self._agenda = agenda
        self._low = frozenset(spec.low)
        self._on_end, self._on_start = on_end, on_start
        self._cancel_s = cancel_s
        self._other_nodes = other_nodes
        self._running: dict[CallId, _Running] = {}
        self._begun: defaultdict[str, int] = defaultdict(int)

    def push(self, call: CallId) -> None:
        """Queue a call and start what can start."""
        self.first_pushed += is_first(call)
        if self.spec.on_push is not None:
            self.spec.on_push(call)
        self.queue.push(call, call.group, low=lane_of(call) in self._low)
        self.pump()

    def use_reserve(self, share: float | None) -> None:
        """Where some calls are of low priority: leave that share of the slots idle from now on."""
        if self._low:
            self.queue.reserve(share)
            self.pump()

    def withdraw(self, call: CallId) -> bool:
        """Remove a call that waits: True. Stop it if it runs and can be stopped: it ends soon, then."""
        if self.queue.withdraw(call):
            return True
        run = self._running.get(call)
        if self._cancel_s is not None and run is not None and not run.lost:
            run.lost = True
            # Its own end may come first, and is the better answer to "when is the server free".
            at = min(self._agenda.now + self._cancel_s, run.ends)
            self._agenda.plan(at, self._stopped, (call, run))
        return False

    def pump(self) -> None:
        """Start calls while a server is free."""
        now = self._agenda.now
        while (placed := self.queue.start(now, self._other_nodes)) is not None:
            call, server = placed
            number = self._begun[server]
            self._begun[server] = number + 1
            ends = now + self.spec.service(server, number, now, call)
            run = self._running[call] = _Running(server, now, ends)
            self._agenda.plan(ends, self._ended, (call, run))
            if self._on_start is not None:
                self._on_start(call)

    def fail(self, server: str) -> None:
        """The server dies with what it runs; it is not replaced until `revive`."""
        self.queue.set_replicas({n: node for n, node in self._nodes.items() if n != server})
        del self._nodes[server]
        for call, run in [(c, r) for c, r in self._running.items() if r.server == server]:
            run.lost = True
            self._finish(call, run, "crashed")
        self.pump()

    def revive(self, server: str, node: str) -> None:
        """The server is there again."""
        self._nodes[server] = node
        self.queue.set_replicas(self._nodes)
        self.pump()

    def _ended(self, ended: tuple[CallId, _Running]) -> None:
        if not ended[1].lost:
            self._finish(*ended, "answered")
            self.pump()

    def _stopped(self, stopped: tuple[CallId, _Running]) -> None:
        call, run = stopped
        if self._running.get(call) is run:
            self._finish(call, run, "cancelled")
            self.pump()

    def _finish(self, call: CallId, run: _Running, how: End) -> None:
        del self._running[call]
        lane, spent = lane_of(call), self._agenda.now - run.since
        self.busy_s[lane] += spent
        self.calls[lane] += 1
        self.busy_by_server[run.server] += spent
        self.calls_by_server[run.server] += 1
        if how == "answered" and is_first(call):
            self.first_calls, self.first_busy_s = self.first_calls + 1, self.first_busy_s + spent
        self.queue.finish(call, run.server, crashed=how == "crashed")
        self._on_end(call, how)
