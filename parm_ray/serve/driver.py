"""The served driver: carries out the group machine's actions on real pools, in real time.

Everything runs on one event loop. Events that come up while actions are carried out wait their
turn, so the machine is never re-entered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import count

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.codes import Code
from parm_ray.core import (
    ByType,
    CallId,
    CallKind,
    Clock,
    DeadlineExceeded,
    InvalidInput,
    ModelFailed,
    Observer,
    Outcome,
    Overloaded,
    QueryId,
)
from parm_ray.groups import GroupMachine
from parm_ray.groups import actions as act
from parm_ray.groups import events as ev
from parm_ray.groups.lanes import DEPLOYED, Lane, lane_of
from parm_ray.redundancy import RedundancyPlan
from parm_ray.routing.room import Parity
from parm_ray.serve.coding import Coding
from parm_ray.serve.losses import OneLossPerGroup
from parm_ray.serve.payloads import Payloads
from parm_ray.serve.plan_change import served
from parm_ray.serve.pool import Ended, Pool
from parm_ray.serve.prediction import Prediction
from parm_ray.serve.recorder import QueryRecorder
from parm_ray.serve.timers import LoopTimers
from parm_ray.serve.trace import GroupTrace
from parm_ray.serve.waiting import Waiting

Array = NDArray[np.generic]


_do = ByType()


class Driver:
    """Owns the machine, the arrays, the timers and the futures of one ingress.

    pools: the pool of each lane; several lanes may have one in common. fill: what an absent slot
    contributes to an encoding. default: the default answer, `[*output]`, or None. losses: the emulated
    losses that stand between the deployed pool and `ended`, if any. submitted, refused: queries since the
    start, and those that found the queue full; copied: batches that were sent to the deployed pool again.
    """

    def __init__(
        self,
        machine: GroupMachine,
        code: Code | None,
        *,
        observer: Observer,
        clock: Clock,
        max_queued: int,
        fill: ArrayLike | None = None,
        default: Array | None = None,
        trace: GroupTrace | None = None,
        recorder: QueryRecorder | None = None,
    ) -> None:
        self.machine = machine
        self._code = code
        self.payloads = Payloads()
        self.pools: dict[Lane, Pool] = {}
        self._coding = Coding(code, self.payloads, self.feed, observer, clock, fill)
        self._observer = observer
        self._clock = clock
        self._max_queued = max_queued
        self._default = default
        self.trace = trace
        self.losses: OneLossPerGroup | None = None
        self._recorder = recorder
        self.submitted, self.refused, self.copied = 0, 0, 0
        self._ids = count()
        self._waiting: dict[QueryId, Waiting] = {}
        self._timers = LoopTimers(clock, lambda timer: self.feed(ev.TimerFired(timer, self._clock())))
        self._events: deque[ev.Event] = deque()
        self._feeding = False

    # -- queries -----------------------------------------------------------------------------

    def admit(self, queries: int, deadline_s: float) -> None:
        """Refuse what cannot be served. Raises Overloaded (queue full) or DeadlineExceeded."""
        if deadline_s <= 0:
            raise DeadlineExceeded("the deadline had already passed when the query arrived")
        pool = self.pools[DEPLOYED]
        room = self._max_queued - pool.queue.queued
        if queries * self.machine.plan.copies > max(room, 0):
            self.refused += queries
            raise Overloaded(
                f"{pool.queue.queued} batches wait, at most {self._max_queued} may", pool.wait_s()
            )

    def submit(
        self, array: Array, deadline_s: float, *, protected: bool = True
    ) -> asyncio.Future[Prediction]:
        """Submit one query `[*input]`; the future ends by the deadline (seconds from now).

        The future raises DeadlineExceeded or ModelFailed; cancelling it withdraws the query.
        """
        loop = asyncio.get_running_loop()
        query, now = QueryId(next(self._ids)), self._clock()
        future: asyncio.Future[Prediction] = loop.create_future()
        self._waiting[query] = Waiting(array, future, now)
        self.submitted += 1
        future.add_done_callback(
            lambda f: self.feed(ev.Cancelled(query, self._clock())) if f.cancelled() else None
        )
        self.feed(ev.Submit(query, now, now + deadline_s, protected))
        return future

    @property
    def open_queries(self) -> int:
        """Futures that have not ended."""
        return len(self._waiting)

    @property
    def open_timers(self) -> int:
        """Timers that run."""
        return len(self._timers)

    def parity_queues(self) -> list[Parity]:
        """The queues that take parity queries."""
        return [(pool.queue, pool.holds_low(n)) for n, pool in self.pools.items() if n > DEPLOYED]

    def distinct_pools(self) -> list[Pool]:
        """Every pool once."""
        return list({pool.name: pool for pool in self.pools.values()}.values())

    @property
    def ready(self) -> bool:
        """Whether every pool, data and parity, has a replica."""
        return all(pool.queue.replicas > 0 for pool in self.pools.values())

    def flush(self) -> None:
        """Close open batches and groups now."""
        self.feed(ev.Flush(self._clock()))

    def use(self, plan: RedundancyPlan) -> bool:
        """Let what begins from now on begin under another plan; groups that began keep theirs.

        Returns False for the plan in force. Deadline, default answer and retries stay. Raises InvalidInput,
        changing nothing, for a plan without its pools or code here; see `plan_change.served`.
        """
        if self.losses is not None:
            raise InvalidInput("plan", "no other one with model.emulate.lose", plan.name)
        if (plan := served(plan, self.machine.plan, self._code, self.pools)) == self.machine.plan:
            return False
        self.feed(ev.UsePlan(plan, self._clock()))
        for pool in self.distinct_pools() if plan.coded else ():
            pool.use_reserve(plan.idle_reserve)
        return True

    # -- events and actions --------------------------------------------------------------------

    def feed(self, event: ev.Event) -> None:
        """Hand an event to the machine and carry out its actions."""
        self._events.append(event)
        if self._feeding:
            return
        self._feeding = True
        try:
            while self._events:
                event = self._events.popleft()
                self._note(event)
                for action in self.machine.handle(event):
                    self._note(action)
                    carry_out = _do.find(action)
                    assert carry_out is not None, f"no driver for {action!r}"
                    carry_out(self, action)
        finally:
            self._feeding = False

    def _note(self, item: ev.Event | act.Action) -> None:
        if self.trace is not None:
            self.trace.note(item, self._clock())

    def started(self, call: CallId) -> None:
        """A call of the deployed pool has started."""
        if self.machine.wants_start(call.group):
            self.feed(ev.Started(call, self._clock()))

    def ended(self, ended: Ended) -> None:
        """A pool call has ended."""
        call, now = ended.call, self._clock()
        if ended.outputs is None:
            self.feed(ev.CallFailed(call, now, ended.error, ended.crashed))
        else:
            if self._recorder is not None and call.kind in (CallKind.DATA, CallKind.COPY):
                self._recorder.answered(call, ended.outputs)
            self.payloads.answer(call, ended.outputs)
            self.feed(ev.Answered(call, now))

    @_do(act.Dispatch)
    def _dispatch(self, action: act.Dispatch) -> None:
        queries: list[Array] | None = None
        if action.call.attempt == 0:
            queries = []
            for query in action.queries:
                waiting = self._waiting[query]
                assert waiting.array is not None
                queries.append(waiting.array)
                waiting.array = None
            if self._recorder is not None:
                self._recorder.dispatched(action.call, queries)
        self.pools[DEPLOYED].push(action.call, self.payloads.batch(action.call, queries))

    @_do(act.DispatchCopy)
    def _dispatch_copy(self, action: act.DispatchCopy) -> None:
        self.copied += action.call.kind is CallKind.COPY and action.call.attempt == 0
        self.pools[lane_of(action.call)].push(action.call, self.payloads.batch(action.call, None))

    @_do(act.DispatchParity)
    def _dispatch_parity(self, action: act.DispatchParity) -> None:
        parity = self.payloads.groups[action.call.group].parity_inputs[action.call.place]
        self.pools[action.call.place].push(action.call, parity)

    @_do(act.Encode)
    def _encode(self, action: act.Encode) -> None:
        self._coding.encode(action.group)

    @_do(act.Reconstruct)
    def _reconstruct(self, action: act.Reconstruct) -> None:
        self._coding.reconstruct(action.group, action.slots)

    @_do(act.Resolve)
    def _resolve(self, action: act.Resolve) -> None:
        waiting = self._waiting.pop(action.query)
        now = self._clock()
        if self.losses is not None:
            self.losses.resolved(action.group, action.slot)
        self._observer.resolved(waiting.record(action, now))
        if waiting.future.done():
            return
        if action.outcome is Outcome.FAILED:
            failure = DeadlineExceeded if action.timed_out else ModelFailed
            waiting.future.set_exception(failure(action.error))
            return
        waiting.future.set_result(
            Prediction(
                self._output(action), action.outcome, action.group, action.slot, action.lateness_s * 1e3
            )
        )

    def _output(self, action: act.Resolve) -> Array:
        if action.outcome is Outcome.DEFAULT:
            assert self._default is not None
            return self._default
        arrays = self.payloads.groups[action.group]
        return arrays.answers(action.outcome)[action.slot][action.row]

    @_do(act.Abandon)
    def _abandon(self, action: act.Abandon) -> None:
        del self._waiting[action.query]

    @_do(act.Compare)
    def _compare(self, action: act.Compare) -> None:
        self._observer.compared(*self.payloads.agreement(action.group, action.slot, action.used))

    @_do(act.Withdraw)
    def _withdraw(self, action: act.Withdraw) -> None:
        pool = self.pools[lane_of(action.call)]
        if pool.withdraw(action.call):
            self.feed(ev.Withdrawn(action.call, self._clock()))

    @_do(act.Sealed)
    def _sealed(self, action: act.Sealed) -> None:
        self._observer.group_sealed(action.filled, action.wait_s, action.early)

    @_do(act.DropInputs)
    def _drop_inputs(self, action: act.DropInputs) -> None:
        self.payloads.groups[action.group].drop_inputs()

    @_do(act.Forget)
    def _forget(self, action: act.Forget) -> None:
        self.payloads.forget(action.group)
        if self._recorder is not None:
            self._recorder.forgotten(action.group)

    @_do(act.StartTimer)
    def _start_timer(self, action: act.StartTimer) -> None:
        self._timers.start(action.timer, action.at)

    @_do(act.CancelTimer)
    def _cancel_timer(self, action: act.CancelTimer) -> None:
        self._timers.cancel(action.timer)
