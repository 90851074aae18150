"""The redundancy plan: which protection a query gets. The server's input, in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

PlanKind = Literal["none", "default", "coded"]
PLAN_KINDS: tuple[str, ...] = get_args(PlanKind)


@dataclass(frozen=True, slots=True)
class RedundancyPlan:
    """What the group machine needs to know about protection; durations in seconds.

    kind: "none" (originals only), "default" (a default answer at the deadline), "coded"
        (parity queries; a default answer too when the server has one).
    k, r: slots of a group and parity queries sent for it; 1 and 0 when nothing is coded.
    fill_timeout_s: how long a group waits for its k-th batch after its first one; then it is
        encoded with the slots it has.
    hold_off_s: how long after a batch was dispatched its reconstruction may be used at the
        earliest; 0 = as soon as it can be decoded (the paper's setting).
    deadline_s: a query unanswered this long after submission is defaulted or failed.
    has_default: whether the server holds a default answer.
    crash_retries: how often a batch is sent again after the replica that ran it died.
    """

    kind: PlanKind = "none"
    k: int = 1
    r: int = 0
    fill_timeout_s: float = 0.02
    hold_off_s: float = 0.0
    deadline_s: float = 5.0
    has_default: bool = False
    crash_retries: int = 1

    @property
    def coded(self) -> bool:
        """Whether groups get parity queries."""
        return self.r > 0
