"""The simulated driver: carries out the group machine's actions on simulated pools, in virtual time.

The twin of `serve/driver.py`: the same machine, the same queues, no arrays. What holds there holds here,
which is what makes a simulation say something about the server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parm_ray.core import CallId, Outcome, QueryId
from parm_ray.groups import GroupMachine
from parm_ray.groups import actions as act
from parm_ray.groups import events as ev
from parm_ray.groups.lanes import DEPLOYED, Lane, lane_of
from parm_ray.redundancy import RedundancyPlan
from parm_ray.routing.room import Parity
from parm_ray.sim.pool import End, SimPool
from parm_ray.sim.timers import Agenda, MachineTimers

OUTCOMES: tuple[Outcome, ...] = tuple(Outcome)
"""What the numbers in `SimDriver.outcome` mean."""

_CODES = {outcome: number for number, outcome in enumerate(OUTCOMES)}


class SimDriver:
    """Owns the machine, the timers and the record of one simulated ingress.

    pools: the pool of each lane, filled in by whoever builds them. encode_s, decode_s: seconds that
    encoding and decoding take, none of it a server's time. planned: arrival times, seconds, ascending.
    max_queued: batches that may wait for the deployed pool; a query beyond it is refused.
    """

    def __init__(
        self,
        machine: GroupMachine,
        agenda: Agenda,
        planned: NDArray[np.float64],
        *,
        encode_s: float = 0.0,
        decode_s: float = 0.0,
        max_queued: int = 1_000_000,
    ) -> None:
        self.machine = machine
        self.pools: dict[Lane, SimPool] = {}
        n = len(planned)
        self.planned = planned
        self.resolved = np.full(n, np.nan)
        self.outcome = np.full(n, _CODES[Outcome.FAILED], np.int8)
        self.lateness = np.zeros(n)
        self.group = np.full(n, -1, np.int64)
        self.slot = np.full(n, -1, np.int64)
        self.last_end = 0.0
        self._agenda = agenda
        self._encode_s, self._decode_s = encode_s, decode_s
        self._timers = MachineTimers(agenda, lambda timer: self.feed(ev.TimerFired(timer, agenda.now)))
        self._events: deque[ev.Event] = deque()
        self._feeding = False
        self._max_queued = max_queued
        self._do: dict[type, Callable[[Any], None]] = {
            act.Dispatch: self._dispatch,
            act.DispatchCopy: self._dispatch,
            act.DispatchParity: self._dispatch,
            act.Encode: self._encode,
            act.Reconstruct: self._reconstruct,
            act.Resolve: self._resolve,
            act.Withdraw: self._withdraw,
            act.StartTimer: lambda action: self._timers.start(action.timer, action.at),
            act.CancelTimer: lambda action: self._timers.cancel(action.timer),
            act.Compare: _nothing,
            act.Sealed: _nothing,
            act.DropInputs: _nothing,
            act.Forget: _nothing,
        }

    def run(self) -> None:
        """Let every query arrive, and everything end."""
        if len(self.planned):
            self._agenda.plan(float(self.planned[0]), self._arrive, 0)
        self._agenda.run()

    def _arrive(self, query: int) -> None:
        now = self._agenda.now
        # As the server refuses it; it has failed, then, before it was a query.
        if self.machine.plan.copies <= self._max_queued - self.pools[DEPLOYED].queue.queued:
            self.feed(ev.Submit(QueryId(query), now, now + self.machine.plan.deadline_s))
        if query + 1 < len(self.planned):
            self._agenda.plan(float(self.planned[query + 1]), self._arrive, query + 1)

    def use(self, plan: RedundancyPlan) -> None:
        """Let what begins from now on begin under another plan, as the server does."""
        self.feed(ev.UsePlan(plan, self._agenda.now))
        for pool in {id(pool): pool for pool in self.pools.values()}.values() if plan.coded else ():
            pool.use_reserve(plan.idle_reserve)

    def feed(self, event: ev.Event) -> None:
        """Hand an event to the machine and carry out its actions."""
        self._events.append(event)
        if self._feeding:
            return
        self._feeding = True
        do, handle = self._do, self.machine.handle
        try:
            while self._events:
                for action in handle(self._events.popleft()):
                    do[type(action)](action)
        finally:
            self._feeding = False

    def started(self, call: CallId) -> None:
        """A call of the deployed pool has started."""
        if self.machine.wants_start(call.group):
            self.feed(ev.Started(call, self._agenda.now))

    def ended(self, call: CallId, how: End) -> None:
        """A pool call has ended."""
        now = self.last_end = self._agenda.now
        if how == "answered":
            self.feed(ev.Answered(call, now))
        else:
            self.feed(ev.CallFailed(call, now, how, how == "crashed"))

    def _dispatch(self, action: act.Dispatch | act.DispatchCopy | act.DispatchParity) -> None:
        self.pools[lane_of(action.call)].push(action.call)

    def _encode(self, action: act.Encode) -> None:
        self._after(self._encode_s, lambda: ev.Encoded(action.group, self._agenda.now))

    def _reconstruct(self, action: act.Reconstruct) -> None:
        self._after(self._decode_s, lambda: ev.Reconstructed(action.group, action.slots, self._agenda.now))

    def _after(self, seconds: float, event: Callable[[], ev.Event]) -> None:
        if seconds > 0:
            self._agenda.plan(self._agenda.now + seconds, lambda _: self.feed(event()), None)
        else:
            self.feed(event())

    def _resolve(self, action: act.Resolve) -> None:
        query = action.query
        self.resolved[query] = self._agenda.now
        self.outcome[query] = _CODES[action.outcome]
        self.lateness[query] = action.lateness_s
        self.group[query], self.slot[query] = action.group, action.slot

    def _withdraw(self, action: act.Withdraw) -> None:
        if self.pools[lane_of(action.call)].withdraw(action.call):
            self.feed(ev.Withdrawn(action.call, self._agenda.now))

    def parity_queues(self) -> list[Parity]:
        """The queues that take parity queries."""
        return [(pool.queue, n in pool.spec.low) for n, pool in self.pools.items() if n > DEPLOYED]


def _nothing(action: act.Action) -> None:
    """Nothing to do without arrays."""
