"""What can happen to the group machine. Times are seconds of the driver's clock.

Not frozen, for the reason given in `actions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from parm_ray.core import CallId, GroupId, QueryId
from parm_ray.redundancy import RedundancyPlan


class TimerKind(str, Enum):
    """Why a timer runs."""

    BATCH = "batch"
    FILL = "fill"
    HOLD_OFF = "hold_off"
    HEDGE = "hedge"
    DEADLINE = "deadline"


class Timer(NamedTuple):
    """Names one timer: `subject` is a query (deadline), a group (fill, hold-off, hedge) or a batch number."""

    kind: TimerKind
    subject: int
    slot: int = 0


@dataclass(slots=True)
class Submit:
    """A query arrives. `deadline` is absolute; `protected=False` opts out of redundancy."""

    query: QueryId
    now: float
    deadline: float
    protected: bool = True


@dataclass(slots=True)
class Started:
    """A pool call left its queue and runs. Only needed where `GroupMachine.wants_start`."""

    call: CallId
    now: float


@dataclass(slots=True)
class Answered:
    """A pool call came back with outputs."""

    call: CallId
    now: float


@dataclass(slots=True)
class CallFailed:
    """A pool call came back with an error. `crashed`: the replica died, so another may do better."""

    call: CallId
    now: float
    error: str
    crashed: bool


@dataclass(slots=True)
class Withdrawn:
    """A call that the machine no longer wanted was still queued and has been removed."""

    call: CallId
    now: float


@dataclass(slots=True)
class Encoded:
    """The parity queries of a group are ready to be sent."""

    group: GroupId
    now: float


@dataclass(slots=True)
class EncodeFailed:
    """The encoder raised; the group goes on without parity."""

    group: GroupId
    now: float
    error: str


@dataclass(slots=True)
class Reconstructed:
    """The decoder has produced the outputs of these slots."""

    group: GroupId
    slots: tuple[int, ...]
    now: float


@dataclass(slots=True)
class ReconstructFailed:
    """The decoder raised on these slots; they wait for their own answers."""

    group: GroupId
    slots: tuple[int, ...]
    now: float
    error: str


@dataclass(slots=True)
class TimerFired:
    """A timer that the machine started has run out."""

    timer: Timer
    now: float


@dataclass(slots=True)
class Cancelled:
    """Nobody waits for this query any more. Legal at any time, also after its answer."""

    query: QueryId
    now: float


@dataclass(slots=True)
class UsePlan:
    """Groups that begin from now on begin under this plan. Illegal if there is no code for it."""

    plan: RedundancyPlan
    now: float


@dataclass(slots=True)
class Flush:
    """Close every open batch and group now (shutdown, drain)."""

    now: float


Event = (
    Submit
    | Started
    | Answered
    | CallFailed
    | Withdrawn
    | Encoded
    | EncodeFailed
    | Reconstructed
    | ReconstructFailed
    | TimerFired
    | Cancelled
    | UsePlan
    | Flush
)
