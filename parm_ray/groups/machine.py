"""The group machine: events in, actions out, no I/O, no clock of its own.

One instance lives in each ingress (or simulated front end). `handle` either raises IllegalEvent
and changes nothing, or returns the actions to carry out, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from parm_ray.core import ByType, CallKind, GroupId, IllegalEvent, Outcome, QueryId
from parm_ray.groups import events as ev
from parm_ray.groups.actions import Abandon, Action, CancelTimer, Compare, Encode, Sealed, StartTimer
from parm_ray.groups.assembler import Assembler, Batcher, drop, holding
from parm_ray.groups.covering import Covering
from parm_ray.groups.events import Event, Timer, TimerKind
from parm_ray.groups.group import Decoding, Group
from parm_ray.groups.ledger import give_up, settle
from parm_ray.groups.register import Register
from parm_ray.groups.stand_ins import reconstruct, reconstructed, stop_hold_offs, use_backups
from parm_ray.groups.terms import Recoverer, terms_of, unfit
from parm_ray.groups.transitions import CallState, CallStep, Phase, Step
from parm_ray.redundancy import RedundancyPlan

PROTECTED, BARE = 1, 0
FIRST_OR_COPY = (CallKind.DATA, CallKind.COPY)

_on = ByType()


class GroupMachine:
    """Forms groups, asks for protection, races answers, settles the losers.

    plan: see RedundancyPlan; the event UsePlan puts another in its place. code: the decoder's set
    arithmetic; needed when a plan is coded.
    batch_size, batch_wait_s: queries per batch and how long the first of them waits (seconds).
    grant: asked once per group that fills; False = no parity for it (queue full). spare: asked when a
    batch joins, with the plan's eager_share; True = encode what is there, without waiting for more. idle:
    asked when a batch is sent, with the plan's copy_share; True = send a copy, too.
    """

    def __init__(
        self,
        plan: RedundancyPlan,
        code: Recoverer | None = None,
        *,
        batch_size: int = 1,
        batch_wait_s: float = 0.0,
        grant: Callable[[], bool] = lambda: True,
        spare: Callable[[float], bool] = lambda share: False,
        idle: Callable[[float], bool] = lambda share: False,
    ) -> None:
        if why := unfit(plan, code):
            raise ValueError(why)
        self._terms = terms_of(plan, code)
        self._register = Register()
        self._code = code
        self._grant, self._spare = grant, spare
        self._covering = Covering(idle, self._terms.hedger)
        self._next_id: Callable[[], GroupId] = map(GroupId, count()).__next__
        self._assembler = Assembler(self._terms, self._next_id)
        self._batchers = {lane: Batcher(batch_size, batch_wait_s, lane) for lane in (PROTECTED, BARE)}

    @property
    def plan(self) -> RedundancyPlan:
        """What groups begin under now."""
        return self._terms.plan

    def wants_start(self, group: GroupId) -> bool:
        """Whether the driver has to say when calls of an open group start."""
        return self._register.groups[group].terms.plan.wants_starts

    @property
    def open_queries(self) -> int:
        """Queries submitted and not resolved."""
        return len(self._register.places)

    @property
    def open_groups(self) -> int:
        """Groups not forgotten: with waiting queries or with calls still outstanding."""
        return len(self._register.groups)

    def waits(self, group: GroupId, slot: int) -> bool:
        """Whether a slot of a coding group (not of a batch that opted out) has unresolved queries."""
        found = self._register.groups.get(group)
        return found is not None and found.protect and bool(found.slots[slot].waiting)

    def handle(self, event: Event) -> list[Action]:
        """Return the actions that answer an event. Raises IllegalEvent and changes nothing."""
        if (method := _on.find(event)) is None:
            raise IllegalEvent(f"not an event: {event!r}")
        return method(self, event)

    # -- queries arrive ----------------------------------------------------------------------

    @_on(ev.Submit)
    def _on_submit(self, event: ev.Submit) -> list[Action]:
        if event.query in self._register.places:
            raise IllegalEvent(f"query {event.query}: submitted twice")
        self._register.places[event.query] = None
        actions: list[Action] = [StartTimer(Timer(TimerKind.DEADLINE, event.query), event.deadline)]
        lane = PROTECTED if event.protected else BARE
        batch, timers = self._batchers[lane].add(event.query, event.now)
        actions += timers
        return actions if batch is None else actions + self._place(batch, lane, event.now)

    def _send(self, batcher: Batcher, now: float) -> list[Action]:
        """Send what it has collected, if anything, without waiting for more."""
        batch = batcher.take()
        return [] if batch is None else [CancelTimer(batcher.timer), *self._place(batch, batcher.lane, now)]

    def _place(self, batch: tuple[QueryId, ...], lane: int, now: float) -> list[Action]:
        covered, terms = lane == PROTECTED, self._terms
        if covered and terms.plan.coded:
            group, actions = self._assembler.place(now)
        else:
            group, actions = Group(self._next_id(), terms, 1, protect=False, opened=now, covered=covered), []
        self._register.groups[group.id] = group
        slot = len(group.slots)
        actions.append(group.join(batch, now))
        for query in batch:
            self._register.places[query] = (group.id, slot)
        if covered and terms.plan.sends_copies:
            actions += self._covering.dispatched(group, slot, now)
        share = terms.plan.eager_share
        if group.full or (share is not None and self._spare(share)):
            actions += self._seal(group, now)
        return actions

    def _seal(self, group: Group, now: float) -> list[Action]:
        """Take no more batches, and protect those that still wait."""
        actions = self._assembler.close() if group is self._assembler.open else []
        protect = group.protect and not group.resolved and self._grant()
        group.step(Step.SEALED_PROTECTED if protect else Step.SEALED_BARE)
        if group.protect:
            actions.append(Sealed(group.id, len(group.slots), now - group.opened, not group.full, protect))
        if protect:
            group.encoding = True
            actions.append(Encode(group.id, tuple(range(len(group.slots)))))
        return actions + self._after(group)

    @_on(ev.Flush)
    def _on_flush(self, event: ev.Flush) -> list[Action]:
        actions: list[Action] = []
        for batcher in self._batchers.values():
            actions += self._send(batcher, event.now)
        if self._assembler.open is not None:
            actions += self._seal(self._assembler.open, event.now)
        return actions

    @_on(ev.UsePlan)
    def _on_use_plan(self, event: ev.UsePlan) -> list[Action]:
        if why := unfit(event.plan, self._code):
            raise IllegalEvent(why)
        # The open group began under the old plan: nobody joins it any more, so it has nobody to wait for.
        actions = [] if self._assembler.open is None else self._seal(self._assembler.open, event.now)
        self._terms = self._assembler.terms = terms_of(event.plan, self._code, self._covering.learns)
        self._covering.learns = self._terms.hedger or self._covering.learns
        return actions

    # -- pools answer ------------------------------------------------------------------------

    @_on(ev.Started)
    def _on_started(self, event: ev.Started) -> list[Action]:
        group, call = self._register.call(event.call)
        if not call.in_flight:
            raise IllegalEvent(f"{event.call}: started in state {call.state.value!r}")
        return self._covering.started(group, call, event.now) if call.id.kind in FIRST_OR_COPY else []

    @_on(ev.Answered)
    def _on_answered(self, event: ev.Answered) -> list[Action]:
        group, call = self._register.call(event.call)
        index, kind = event.call.place, event.call.kind
        news = kind in FIRST_OR_COPY and not group.slots[index].known
        group.end(call, CallStep.ANSWER)
        actions: list[Action] = []
        if kind is CallKind.DATA:
            self._covering.took(group, event.call, event.now)
        if news:
            used = group.slots[index].used
            if used is not None:
                actions.append(Compare(group.id, index, used))
            group.slots[index].known = True
            actions += group.resolve(index, Outcome.ORIGINAL if kind is CallKind.DATA else Outcome.COPY)
            actions += self._covering.answered(group, index)
        return actions + self._progress(group, event.now)

    @_on(ev.CallFailed)
    def _on_call_failed(self, event: ev.CallFailed) -> list[Action]:
        group, call = self._register.call(event.call)
        wanted = call.state is CallState.OUTSTANDING
        group.end(call, CallStep.FAILURE)
        actions: list[Action] = []
        if event.call.kind in FIRST_OR_COPY:
            slot = group.slots[event.call.place]
            slot.error = event.error
            left = slot.call.id.attempt < group.terms.plan.crash_retries and not slot.in_flight
            if event.crashed and wanted and left and slot.waiting and not slot.known:
                actions += [*self._covering.cleared(group, event.call.place), group.resend(slot)]
        return actions + self._progress(group, event.now)

    @_on(ev.Withdrawn)
    def _on_withdrawn(self, event: ev.Withdrawn) -> list[Action]:
        group, call = self._register.call(event.call)
        group.end(call, CallStep.REMOVED)
        return self._after(group)

    # -- coding ------------------------------------------------------------------------------

    @_on(ev.Encoded)
    def _on_encoded(self, event: ev.Encoded) -> list[Action]:
        group = self._register.encoding(event.group)
        return [*group.encoded(), *self._after(group)]

    @_on(ev.EncodeFailed)
    def _on_encode_failed(self, event: ev.EncodeFailed) -> list[Action]:
        group = self._register.encoding(event.group)
        group.encode_failed()
        return self._after(group)

    @_on(ev.Reconstructed)
    def _on_reconstructed(self, event: ev.Reconstructed) -> list[Action]:
        group = self._register.decoding(event.group, event.slots)
        return reconstructed(group, event.slots, event.now) + self._progress(group, event.now)

    @_on(ev.ReconstructFailed)
    def _on_reconstruct_failed(self, event: ev.ReconstructFailed) -> list[Action]:
        group = self._register.decoding(event.group, event.slots)
        for index in event.slots:
            group.slots[index].decoding = Decoding.BROKEN
        return self._progress(group, event.now)

    def _progress(self, group: Group, now: float) -> list[Action]:
        """Use what can stand in for an answer, its hold-off having passed; then clear up."""
        actions = use_backups(group, now) if group.terms.plan.backup else []
        if group.parities:
            actions += reconstruct(group, now)
        return actions + self._after(group)

    def _after(self, group: Group) -> list[Action]:
        """Give up what is hopeless, settle, and let go of the group when nothing is left of it."""
        actions = [*give_up(group), *settle(group)]
        self._register.prune(group)
        if group.phase is Phase.FORGOTTEN:
            actions += stop_hold_offs(group) + self._covering.stop_hedges(group)
        return actions

    # -- time passes, clients leave ------------------------------------------------------------

    @_on(ev.TimerFired)
    def _on_timer_fired(self, event: ev.TimerFired) -> list[Action]:
        kind, subject, _ = event.timer
        if kind is TimerKind.DEADLINE:
            return self._leave(QueryId(subject), "deadline exceeded", event.now, timed_out=True)
        if kind is TimerKind.BATCH:
            batch = self._batchers[subject].take()
            return [] if batch is None else self._place(batch, subject, event.now)
        if (group := self._register.groups.get(GroupId(subject))) is None:
            return []
        if kind is TimerKind.FILL:
            return self._seal(group, event.now) if group.phase is Phase.FILLING else []
        if kind is TimerKind.HEDGE:
            return self._covering.hedge_due(group, event.timer.slot, event.now)
        # The driver's clock may read a hair before the time it was asked for; the timer fires once.
        due = group.slots[event.timer.slot].dispatched + group.terms.plan.hold_off_s
        return self._progress(group, max(event.now, due))

    @_on(ev.Cancelled)
    def _on_cancelled(self, event: ev.Cancelled) -> list[Action]:
        return self._leave(event.query, "cancelled", event.now, timed_out=False)

    def _leave(self, query: QueryId, why: str, now: float, *, timed_out: bool) -> list[Action]:
        """A query stops waiting: its time is up or its client is gone."""
        if query not in self._register.places:
            return []
        place = self._register.places[query]
        if place is None:
            if not timed_out:
                return self._abandon(query)
            # Still in a batch that is being collected: send the batch, then answer its late member.
            sent = self._send(holding(query, self._batchers.values()), now)
            return [*sent, *self._leave(query, why, now, timed_out=True)]
        group = self._register.groups[place[0]]
        default = timed_out and group.terms.plan.has_default
        outcome = Outcome.DEFAULT if default else Outcome.FAILED
        actions = group.resolve(
            place[1], outcome, only=query, error=None if default else why, timed_out=timed_out
        )
        return actions + self._after(group)

    def _abandon(self, query: QueryId) -> list[Action]:
        del self._register.places[query]
        timers = [Timer(TimerKind.DEADLINE, query), *drop(query, self._batchers.values())]
        return [Abandon(query), *map(CancelTimer, timers)]
