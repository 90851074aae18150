"""One coding group: its slots, its parity rows, and what each event means for them.

A group only answers *what now*; who is asked, and when, is the assembler's and the ledger's part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from parm_ray.core import CallId, GroupId, Outcome, QueryId
from parm_ray.groups.actions import Action, CancelTimer, Dispatch, DispatchParity, Resolve
from parm_ray.groups.events import Timer, TimerKind
from parm_ray.groups.transitions import CALLS, IN_FLIGHT, PHASES, CallState, CallStep, Phase, Step, advance


class Recoverer(Protocol):
    """The part of a decoder the machine needs: set arithmetic, see `codes.base.Decoder`."""

    def recoverable(
        self, present: frozenset[int], answered: frozenset[int], parities: frozenset[int]
    ) -> frozenset[int]:
        """Return the missing slots that could be decoded now."""


class Decoding(str, Enum):
    """How far a slot's reconstruction is."""

    IDLE = "idle"
    PENDING = "pending"
    USED = "used"
    BROKEN = "broken"


@dataclass(slots=True)
class Call:
    """One pool call and its state."""

    id: CallId
    state: CallState = CallState.OUTSTANDING

    def step(self, step: CallStep) -> None:
        """Move on by the table. Raises IllegalEvent, changing nothing."""
        self.state = advance(CALLS, self.state, step, str(self.id))

    @property
    def in_flight(self) -> bool:
        """Whether an answer or a failure is still to come."""
        return self.state in IN_FLIGHT


@dataclass(slots=True)
class Slot:
    """One batch. `waiting` maps each unresolved query to its row in the batch."""

    call: Call
    queries: tuple[QueryId, ...]
    dispatched: float
    waiting: dict[QueryId, int] = field(default_factory=dict)
    decoding: Decoding = Decoding.IDLE
    hold_off_started: bool = False
    error: str = "no answer"


@dataclass(slots=True)
class Group:
    """The state of one group. `k` = 1 and `protect` = False for batches that nothing protects."""

    id: GroupId
    k: int
    protect: bool
    opened: float
    phase: Phase = Phase.FILLING
    slots: list[Slot] = field(default_factory=list)
    parities: dict[int, Call] = field(default_factory=dict)
    encoding: bool = False

    def step(self, step: Step) -> None:
        """Move to the next phase by the table. Raises IllegalEvent, changing nothing."""
        self.phase = advance(PHASES, self.phase, step, f"group {self.id}")

    # -- joining -----------------------------------------------------------------------------

    def join(self, queries: tuple[QueryId, ...], now: float) -> Dispatch:
        """Give a batch the next slot; it is dispatched at once, never held for the group."""
        self.step(Step.BATCH_JOINED)
        call = CallId(self.id, len(self.slots))
        self.slots.append(Slot(Call(call), queries, now, {q: i for i, q in enumerate(queries)}))
        return Dispatch(call, queries)

    def resend(self, slot: Slot, now: float) -> Dispatch:
        """Send a batch again after its replica died; only what still waits matters, rows stay."""
        old = slot.call.id
        slot.call = Call(old._replace(attempt=old.attempt + 1))
        slot.dispatched = now
        return Dispatch(slot.call.id, slot.queries)

    def send_parities(self, r: int) -> list[DispatchParity]:
        """Make the parity calls of rows 0..r-1."""
        self.parities = {row: Call(CallId(self.id, row, parity=True)) for row in range(r)}
        return [DispatchParity(call.id) for call in self.parities.values()]

    # -- looking -----------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether all k slots hold a batch."""
        return len(self.slots) == self.k

    @property
    def resolved(self) -> bool:
        """Whether no query of the group waits."""
        return not any(slot.waiting for slot in self.slots)

    @property
    def present(self) -> frozenset[int]:
        """Slots that hold a batch."""
        return frozenset(range(len(self.slots)))

    def answered(self, *, also: CallState | None = None) -> frozenset[int]:
        """Slots whose own outputs have arrived, or whose call is in state `also`."""
        return frozenset(
            i
            for i, s in enumerate(self.slots)
            if s.call.state in (CallState.ANSWERED, also or CallState.ANSWERED)
        )

    def parity_rows(self, *, also: CallState | None = None) -> frozenset[int]:
        """Parity rows whose outputs have arrived, or whose call is in state `also`."""
        return frozenset(
            i for i, c in self.parities.items() if c.state in (CallState.ANSWERED, also or CallState.ANSWERED)
        )

    def calls(self) -> Iterator[Call]:
        """Every call, data first."""
        yield from (slot.call for slot in self.slots)
        yield from self.parities.values()

    def call(self, id: CallId) -> Call | None:
        """The call of that id, None if there is none (or a later attempt took its place)."""
        if id.parity:
            found = self.parities.get(id.place)
        else:
            found = self.slots[id.place].call if 0 <= id.place < len(self.slots) else None
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
        for query in list(slot.waiting) if only is None else [only]:
            row = slot.waiting.pop(query)
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
