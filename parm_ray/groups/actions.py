"""What the group machine wants done. A driver (served or simulated) carries these out in order.

Not frozen, though nothing changes them: a frozen one takes three times as long to make, and a query makes a
dozen.
"""

from __future__ import annotations

from dataclasses import dataclass

from parm_ray.core import CallId, GroupId, Outcome, QueryId
from parm_ray.groups.events import Timer


@dataclass(slots=True)
class Dispatch:
    """Queue a data batch for the deployed pool; answer with Answered or CallFailed."""

    call: CallId
    queries: tuple[QueryId, ...]


@dataclass(slots=True)
class Encode:
    """Encode the batches of these slots; answer with Encoded or EncodeFailed."""

    group: GroupId
    slots: tuple[int, ...]


@dataclass(slots=True)
class DispatchParity:
    """Queue parity row `call.place` for its parity pool; answer with Answered or CallFailed."""

    call: CallId


@dataclass(slots=True)
class DispatchCopy:
    """Queue the slot's batch once more: a COPY for the deployed pool, a BACKUP for the backup pool."""

    call: CallId


@dataclass(slots=True)
class Reconstruct:
    """Decode these slots; answer with Reconstructed or ReconstructFailed."""

    group: GroupId
    slots: tuple[int, ...]


@dataclass(slots=True)
class Resolve:
    """Answer a query, once. `error` is set for FAILED alone; `lateness_s` is 0 for originals."""

    query: QueryId
    outcome: Outcome
    group: GroupId
    slot: int
    row: int
    lateness_s: float = 0.0
    attempts: int = 1
    error: str | None = None
    timed_out: bool = False


@dataclass(slots=True)
class Abandon:
    """Forget a query that was cancelled before it was part of any batch."""

    query: QueryId


@dataclass(slots=True)
class Compare:
    """A late original arrived: compare it with what was used in its place, `used`."""

    group: GroupId
    slot: int
    used: Outcome


@dataclass(slots=True)
class Withdraw:
    """Remove a call from its queue; answer with Withdrawn if it was there, else do nothing."""

    call: CallId


@dataclass(slots=True)
class Sealed:
    """A group takes no more batches. For observers."""

    group: GroupId
    filled: int
    wait_s: float
    early: bool
    protected: bool


@dataclass(slots=True)
class DropInputs:
    """Every query of the group is answered: its inputs are not needed any more."""

    group: GroupId


@dataclass(slots=True)
class Forget:
    """Nothing of the group is outstanding: drop all that is kept of it."""

    group: GroupId


@dataclass(slots=True)
class StartTimer:
    """Send TimerFired(timer) at `at` (seconds of the driver's clock)."""

    timer: Timer
    at: float


@dataclass(slots=True)
class CancelTimer:
    """The timer is not needed any more."""

    timer: Timer


Action = (
    Dispatch
    | Encode
    | DispatchParity
    | DispatchCopy
    | Reconstruct
    | Resolve
    | Abandon
    | Compare
    | Withdraw
    | Sealed
    | DropInputs
    | Forget
    | StartTimer
    | CancelTimer
)
