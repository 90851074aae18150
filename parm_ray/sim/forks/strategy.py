"""A strategy of redundancy, as the fork simulator carries it out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

# random: any `fork` servers, all sets as likely. groups: one of servers / fork disjoint groups. least work:
# those that will be free soonest, as they turn out to be: the same as a fork to all.
Choice = Literal["random", "groups", "least work"]
CHOICES: tuple[str, ...] = get_args(Choice)

# all: once a job is done its other copies go, those in service too. waiting: those in service run to their
# end. none: those that wait are served as well.
Cancel = Literal["all", "waiting", "none"]
CANCELS: tuple[str, ...] = get_args(Cancel)

HedgeFrom = Literal["arrival", "start"]
HEDGE_FROM: tuple[str, ...] = get_args(HedgeFrom)


@dataclass(frozen=True, slots=True)
class Forking:
    """The general strategy (r_f, r): fork to r_f servers, keep the first r to start, done at the k-th finish.

    Joshi, Soljanin and Wornell, 2017. r_f = r = servers: full forking. r = k = 1: fork-early-cancel, which
    for r_f = servers is one queue for all. r_f = r < servers: partial forking.

    servers: how many, each first come, first served.
    fork: r_f; keep: r; need: k, with need <= keep <= fork <= servers. Copies after the r-th to start are
        withdrawn from their queues.
    choice: of which servers; all the same where fork = servers.
    cancel: what becomes of copies that are not needed any more. cancel_s: seconds that a server stays
        occupied after a copy in service was cancelled.
    hedge_s: None, or the seconds after which a job that is not done is forked once more in the same way, to
        servers not chosen before (fork = servers: that do not serve it now); counted from its arrival or
        from the first start of a copy (hedge_from).

    Raises ValueError for a field out of range.
    """

    servers: int
    fork: int
    keep: int
    need: int = 1
    choice: Choice = "random"
    cancel: Cancel = "all"
    cancel_s: float = 0.0
    hedge_s: float | None = None
    hedge_from: HedgeFrom = "start"

    def __post_init__(self) -> None:
        _whole("servers", self.servers, None)
        _whole("fork", self.fork, self.servers)
        _whole("keep", self.keep, self.fork)
        _whole("need", self.need, self.keep)
        for name, legal in (("choice", CHOICES), ("cancel", CANCELS), ("hedge_from", HEDGE_FROM)):
            if getattr(self, name) not in legal:
                raise ValueError(f"{name}: expected one of {legal}, got {getattr(self, name)!r}")
        _seconds("cancel_s", self.cancel_s)
        if self.choice == "groups" and self.servers % self.fork:
            raise ValueError(f"fork: for groups expected a divisor of {self.servers}, got {self.fork}")
        if self.hedge_s is None:
            return
        _seconds("hedge_s", self.hedge_s)
        if self.choice != "least work" and self.fork < self.servers < 2 * self.fork:
            raise ValueError(
                f"fork: with hedges expected {self.servers} or at most half of it, got {self.fork}"
            )

    @property
    def forks_to_all(self) -> bool:
        """Whether every server has a copy of every job in its queue, or might as well."""
        return self.fork == self.servers or self.choice == "least work"


def _whole(name: str, value: int, most: int | None) -> None:
    if value < 1 or (most is not None and value > most):
        raise ValueError(f"{name}: expected {'>= 1' if most is None else f'1..{most}'}, got {value}")


def _seconds(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name}: expected seconds >= 0, got {value!r}")
