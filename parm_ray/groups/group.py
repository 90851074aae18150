"""One coding group: its slots, its parity rows, and what each event means for them.

A group only answers *what now*; who is asked, and when, is the assembler's and the ledger's part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from parm_ray.core import CallId, CallKind, GroupId, Outcome, QueryId
from parm_ray.groups.actions import (
    Action,
    CancelTimer,
    Dispatch,
    DispatchCopy,
    DispatchParity,
    Resolve,
    Withdraw,
)
from parm_ray.groups.events import Timer, TimerKind
from parm_ray.groups.terms import Terms
from parm_ray.groups.transitions import CALLS, PHASES, CallState, CallStep, Phase, Step, advance

STAND_INS = (Outcome.RECONSTRUCTED, Outcome.BACKUP)
"""Answers that are not the deployed model's, and that its late answer is compared with."""


class Decoding(str, Enum):
    """How far a slot's reconstruction is."""

    IDLE = "idle"
    PENDING = "pending"
    BROKEN = "broken"


@dataclass(slots=True)
class Call:
    """One pool call and its state."""

    id: CallId
    state: CallState = CallState.OUTSTANDING

    def step(self, step: CallStep) -> None:
        """Move on by the table. Raises IllegalEvent, changing nothing."""
        self.state = advance(CALLS, self.state, step, self.id)

    @property
    def in_flight(self) -> bool:
        """Whether an answer or a failure is still to come."""
        return self.state is CallState.OUTSTANDING or self.state is CallState.UNWANTED


@dataclass(slots=True)
class Slot:
    """One batch. `waiting` maps each unresolved query to its row in the batch.

    copies: calls of the same batch to the same model; backup: one to the backup model. known: whether the
    deployed model's outputs have arrived, from whichever call. used: what answered in its place, if
    something did. started: when the own call left its queue, None
    if it has not, or nobody asked.
    """

    call: Call
    queries: tuple[QueryId, ...]
    dispatched: float
    waiting: dict[QueryId, int] = field(default_factory=dict)
    copies: list[Call] = field(default_factory=list)
    backup: Call | None = None
    decoding: Decoding = Decoding.IDLE
    known: bool = False
    used: Outcome | None = None
    started: float | None = None
    hold_off_started: bool = False
    hedge_started: bool = False
    error: str = "no answer"

    def same(self) -> Iterator[Call]:
        """The calls of this batch to the deployed model."""
        yield self.call
        yield from self.copies

    @property
    def in_flight(self) -> bool:
        """Whether the deployed model's outputs may still come."""
        return self.call.in_flight or (bool(self.copies) and any(copy.in_flight for copy in self.copies))


@dataclass(slots=True)
class Group:
    """The state of one group.

    terms: the plan it began under. protect: it gets parity queries; without, k is 1. covered: its batches
    get the plan's copies, hedges and backup; False for those that opted out.
    """

    id: GroupId
    terms: Terms
    k: int
    protect: bool
    opened: float
    covered: bool = True
    phase: Phase = Phase.FILLING
    slots: list[Slot] = field(default_factory=list)
    parities: dict[int, Call] = field(default_factory=dict)
    encoding: bool = False
    unresolved: int = 0
    open_calls: int = 0
    newly_resolved: list[QueryId] = field(default_factory=list)

    def __str__(self) -> str:
        return f"group {self.id}"

    def step(self, step: Step) -> None:
        """Move to the next phase by the table. Raises IllegalEvent, changing nothing."""
        self.phase = advance(PHASES, self.phase, step, self)

    # -- joining -----------------------------------------------------------------------------

    def join(self, queries: tuple[QueryId, ...], now: float) -> Dispatch:
        """Give a batch the next slot; it is dispatched at once, never held for the group."""
        self.step(Step.BATCH_JOINED)
        call = CallId(self.id, len(self.slots))
        self.slots.append(Slot(Call(call), queries, now, {q: i for i, q in enumerate(queries)}))
        self.unresolved += len(queries)
        self.open_calls += 1
        return Dispatch(call, queries)

    def resend(self, slot: Slot) -> Dispatch:
        """Send a batch again after its replica died; only what still waits matters, rows stay.

        Its hold-off still counts from the first dispatch.
        """
        old = slot.call.id
        slot.call = Call(old._replace(attempt=old.attempt + 1))
        self.open_calls += 1
        slot.started = None
        return Dispatch(slot.call.id, slot.queries)

    def copy(self, index: int) -> DispatchCopy:
        """Send a slot's batch to the deployed pool once more."""
        slot = self.slots[index]
        call = CallId(self.id, index, CallKind.COPY, len(slot.copies))
        slot.copies.append(Call(call))
        self.open_calls += 1
        return DispatchCopy(call)

    def back_up(self, index: int) -> DispatchCopy:
        """Send a slot's batch to the backup pool."""
        call = CallId(self.id, index, CallKind.BACKUP)
        self.slots[index].backup = Call(call)
        self.open_calls += 1
        return DispatchCopy(call)

    def end(self, call: Call, step: CallStep) -> None:
        """One of the group's calls has ended. Raises IllegalEvent, changing nothing."""
        call.step(step)
        self.open_calls -= 1

    def call_off(self, calls: Iterable[Call]) -> list[Action]:
        """Say of those that are outstanding that nobody wants them any more."""
        actions: list[Action] = []
        for call in calls:
            if call.state is CallState.OUTSTANDING:
                call.step(CallStep.WITHDRAW)
                actions.append(Withdraw(call.id))
        return actions

    def encoded(self) -> list[Action]:
        """The parities are ready: make their calls, if somebody still waits."""
        wanted = self.phase is Phase.ENCODING
        self.step(Step.PARITY_SENT)
        self.encoding = False
        if not wanted:
            return []
        rows = range(self.terms.plan.r)
        self.parities = {row: Call(CallId(self.id, row, CallKind.PARITY)) for row in rows}
        self.open_calls += len(rows)
        return [DispatchParity(call.id) for call in self.parities.values()]

    def encode_failed(self) -> None:
        """There will be no parities."""
        self.step(Step.ENCODE_FAILED)
        self.encoding = False

    # -- looking -----------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether all k slots hold a batch."""
        return len(self.slots) == self.k

    @property
    def resolved(self) -> bool:
        """Whether no query of the group waits."""
        return not self.unresolved

    @property
    def present(self) -> frozenset[int]:
        """Slots that hold a batch."""
        return frozenset(range(len(self.slots)))

    def answered(self, *, also: CallState | None = None) -> frozenset[int]:
        """Slots whose own outputs have arrived, or one of whose calls is in state `also`."""
        return frozenset(
            i
            for i, slot in enumerate(self.slots)
            if slot.known or (also is not None and any(call.state is also for call in slot.same()))
        )

    def parity_rows(self, *, also: CallState | None = None) -> frozenset[int]:
        """Parity rows whose outputs have arrived, or whose call is in state `also`."""
        return frozenset(
            i for i, c in self.parities.items() if c.state in (CallState.ANSWERED, also or CallState.ANSWERED)
        )

    def calls(self) -> Iterator[Call]:
        """Every call, data first."""
        for slot in self.slots:
            yield from slot.same()
            if slot.backup is not None:
                yield slot.backup
        yield from self.parities.values()

    def call(self, id: CallId) -> Call | None:
        """The call of that id, None if there is none (or a later attempt took its place)."""
        found: Call | None = None
        if id.kind is CallKind.PARITY:
            found = self.parities.get(id.place)
        elif 0 <= id.place < len(self.slots):
            slot = self.slots[id.place]
            if id.kind is CallKind.DATA:
                found = slot.call
            elif id.kind is CallKind.BACKUP:
                found = slot.backup
            elif 0 <= id.attempt < len(slot.copies):
                found = slot.copies[id.attempt]
        return found if found is not None and found.id == id else None

    # -- resolving ---------------------------------------------------------------------------

    def resolve(
        self,
        index: int,
        outcome: Outcome,
        *,
        only: QueryId | None = None,
        lateness_s: float = 0.0,
        error: str | None = None,
        timed_out: bool = False,
    ) -> list[Action]:
        """Resolve the waiting queries of a slot (or `only` one of them) and stop their deadlines."""
        slot = self.slots[index]
        actions: list[Action] = []
        if slot.waiting and outcome in STAND_INS:
            slot.used = outcome
        for query in list(slot.waiting) if only is None else [only]:
            row = slot.waiting.pop(query)
            self.unresolved -= 1
            self.newly_resolved.append(query)
            actions.append(
                Resolve(
                    query,
                    outcome,
                    self.id,
                    index,
                    row,
                    lateness_s,
                    slot.call.id.attempt + 1,
                    error,
                    timed_out,
                )
            )
            actions.append(CancelTimer(Timer(TimerKind.DEADLINE, query)))
        return actions
