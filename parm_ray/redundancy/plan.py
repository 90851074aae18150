"""The redundancy plan: which protection a query gets. The server's input, in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from parm_ray.redundancy.hedge import Hedge

PlanKind = Literal["none", "default", "coded", "replicated", "hedged", "backup"]
PLAN_KINDS: tuple[str, ...] = get_args(PlanKind)

Keep = Literal["finish", "start"]


@dataclass(frozen=True, slots=True)
class RedundancyPlan:
    """What the group machine needs to know about protection; durations in seconds.

    kind: "none" (originals only), "default" (a default answer at the deadline), "coded"
        (parity queries), "replicated" (several calls at once), "hedged" (another call when the first
        is slow), "backup" (a smaller model answers every query, too). A default answer is given at the
        deadline by all of them when the server has one.
    k, r: slots of a group and parity queries sent for it; 1 and 0 when nothing is coded.
    fill_timeout_s: how long a group waits for its k-th batch after its first one; then it is
        encoded with the slots it has.
    eager_share: a group is encoded as soon as it has a batch while at least this share 0..1 of the
        parity slots is idle: at low rates nobody waits for company, and each query gets a parity of
        its own; None = never (the paper's setting).
    hold_off_s: how long after a batch was dispatched a reconstruction, or the backup's answer, may be
        used at the earliest; 0 = as soon as it is there (the paper's setting).
    copies: calls of each batch that are sent at once; above 1 for "replicated" alone. keep: which of
        them goes on: the first to "finish" (the others run until then) or the first to "start" (the
        others are withdrawn as soon as one leaves its queue: fork-early-cancel).
    copy_share: while at least this share 0..1 of the deployed slots is idle, a batch is sent to two
        replicas at once, outside the hedges' budget: at low rates copies cost nobody anything. None =
        never. With "hedged" and "coded".
    hedge: when and how often slow batches are sent again; with "hedged", and with "coded" too.
    backup: whether every batch goes to the backup pool, too.
    idle_reserve: where parity queries run on the replicas that serve queries, the share 0..1 of all
        slots that starting one must leave idle; None = as large a share as queries keep busy in the mean,
        see `routing.reserve.Reserve`.
    deadline_s: a query unanswered this long after submission is defaulted or failed.
    has_default: whether the server holds a default answer.
    crash_retries: how often a batch is sent again after the replica that ran it died.
    """

    kind: PlanKind = "none"
    k: int = 1
    r: int = 0
    fill_timeout_s: float = 0.02
    eager_share: float | None = None
    hold_off_s: float = 0.0
    copies: int = 1
    keep: Keep = "finish"
    copy_share: float | None = None
    hedge: Hedge | None = None
    backup: bool = False
    idle_reserve: float | None = 0.0
    deadline_s: float = 5.0
    has_default: bool = False
    crash_retries: int = 1

    @property
    def name(self) -> str:
        """Its mechanisms in short, without delays and budgets: "coded k=2, hedges". A metric's label."""
        first: str = self.kind
        if self.coded:
            first = f"coded k={self.k}" + (f" r={self.r}" if self.r > 1 else "")
        elif self.copies > 1:
            first = f"{self.copies} copies" + (", first to start" if self.keeps_first_start else "")
        more = [", hedges"] if self.hedge is not None and self.kind != "hedged" else []
        more += [", copies when idle"] if self.copy_share is not None else []
        return "".join([first, *more])

    @property
    def coded(self) -> bool:
        """Whether groups get parity queries."""
        return self.r > 0

    @property
    def keeps_first_start(self) -> bool:
        """Whether of several calls the first to start goes on alone."""
        return self.copies > 1 and self.keep == "start"

    @property
    def wants_starts(self) -> bool:
        """Whether the machine has to be told when calls start."""
        return self.hedge is not None or self.keeps_first_start

    @property
    def sends_copies(self) -> bool:
        """Whether a batch may be sent to more than its first call and parities."""
        return self.copies > 1 or self.copy_share is not None or self.hedge is not None or self.backup
