"""The machine's states and transitions as data; the README's diagrams are printed from here."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from parm_ray.core import IllegalEvent


class Phase(str, Enum):
    """Where a group stands."""

    FILLING = "filling"
    ENCODING = "encoding"
    RACING = "racing"
    SETTLING = "settling"
    FORGOTTEN = "forgotten"


class Step(str, Enum):
    """What moves a group on."""

    BATCH_JOINED = "batch joined"
    SEALED_PROTECTED = "full or fill timeout, protection granted"
    SEALED_BARE = "full or fill timeout, no protection"
    PARITY_SENT = "encoded, parity sent"
    ENCODE_FAILED = "encoder failed"
    ALL_RESOLVED = "every query resolved"
    ALL_SETTLED = "no call outstanding"


PHASES: Mapping[tuple[Phase, Step], Phase] = {
    (Phase.FILLING, Step.BATCH_JOINED): Phase.FILLING,
    (Phase.FILLING, Step.SEALED_PROTECTED): Phase.ENCODING,
    (Phase.FILLING, Step.SEALED_BARE): Phase.RACING,
    (Phase.ENCODING, Step.PARITY_SENT): Phase.RACING,
    (Phase.ENCODING, Step.ENCODE_FAILED): Phase.RACING,
    (Phase.ENCODING, Step.ALL_RESOLVED): Phase.SETTLING,
    (Phase.RACING, Step.ALL_RESOLVED): Phase.SETTLING,
    # The encoder may still be at work when the last query is answered; its result is not sent.
    (Phase.SETTLING, Step.PARITY_SENT): Phase.SETTLING,
    (Phase.SETTLING, Step.ENCODE_FAILED): Phase.SETTLING,
    (Phase.SETTLING, Step.ALL_SETTLED): Phase.FORGOTTEN,
}


class CallState(str, Enum):
    """Where one pool call (data or parity) stands."""

    OUTSTANDING = "outstanding"
    UNWANTED = "unwanted"
    ANSWERED = "answered"
    FAILED = "failed"
    WITHDRAWN = "withdrawn"


class CallStep(str, Enum):
    """What moves a call on."""

    ANSWER = "answered"
    FAILURE = "failed"
    WITHDRAW = "nobody wants it any more"
    REMOVED = "removed from its queue"


CALLS: Mapping[tuple[CallState, CallStep], CallState] = {
    (CallState.OUTSTANDING, CallStep.ANSWER): CallState.ANSWERED,
    (CallState.OUTSTANDING, CallStep.FAILURE): CallState.FAILED,
    (CallState.OUTSTANDING, CallStep.WITHDRAW): CallState.UNWANTED,
    # Late answers are legal: they are compared and dropped.
    (CallState.UNWANTED, CallStep.ANSWER): CallState.ANSWERED,
    (CallState.UNWANTED, CallStep.FAILURE): CallState.FAILED,
    (CallState.UNWANTED, CallStep.REMOVED): CallState.WITHDRAWN,
}

S = TypeVar("S", bound=Enum)
T = TypeVar("T", bound=Enum)


def advance(table: Mapping[tuple[S, T], S], state: S, step: T, subject: object) -> S:
    """Return the next state. Raises IllegalEvent, naming `subject`, state and step, if there is none."""
    try:
        return table[state, step]
    except KeyError:
        raise IllegalEvent(f"{subject}: {step.value!r} is not legal in state {state.value!r}") from None


def mermaid(table: Mapping[tuple[S, T], S]) -> str:
    """Return a Mermaid state diagram of a transition table."""
    lines = ["stateDiagram-v2"]
    lines += [f"    {a.value} --> {b.value}: {step.value}" for (a, step), b in table.items()]
    return "\n".join(lines)
