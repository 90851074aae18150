"""What the adviser is asked about: how long calls take, how many there are, what may be done about it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from parm_ray.advisor.prediction import Losers, whole
from parm_ray.core import DISCIPLINES, Discipline
from parm_ray.redundancy import PLAN_KINDS, PlanKind
from parm_ray.stats.copies import Service

NOT_STOPPED = Losers(None)
"""Calls in service run to their end, as a forward pass does."""


@dataclass(frozen=True, slots=True)
class ParityOffer:
    """Parity models that could be served for groups of k, with one parity row.

    slowdown: how many times as long a parity query takes as a query. encoder, decoder: of `parm_ray.codes`;
    with slot decoding one parity answer is enough, by subtraction the other k - 1 answers are needed, too.
    accuracy_loss: by how much less often (0..1) a reconstruction is right than the deployed model's answer;
    None = not known. Raises ValueError for values out of range.
    """

    k: int
    slowdown: float = 1.0
    encoder: str = "concat"
    decoder: str = "slot"
    accuracy_loss: float | None = None

    def __post_init__(self) -> None:
        whole("k", self.k, 2, 64)
        if not (math.isfinite(self.slowdown) and self.slowdown > 0):
            raise ValueError(f"slowdown: expected a factor > 0, got {self.slowdown!r}")
        if self.accuracy_loss is not None and not 0 <= self.accuracy_loss <= 1:
            raise ValueError(f"accuracy_loss: expected 0..1, got {self.accuracy_loss}")


@dataclass(frozen=True)
class Workload:
    """Queries of one model and the replicas that answer them.

    service: the law of a call's seconds on a replica, waiting excluded; a `stats.families` law, an
        `Empirical` sample, copies that share a size (`SizeSlowdown`), or measured pairs (`Paired`).
    rate: queries per second, a Poisson process. replicas: of all pools together, one call at a time each.
    losers: what stopping a call that is not needed any more costs.
    parities: the parity models there are; none = no coded plans.
    discipline: where a call waits, see `routing.make_queue`.
    parity_pool: None = replicas may be divided among pools as a plan likes; else the pools are there and
        stay: `replicas` of the deployed model and so many of the parity model beside them, 0 = the deployed
        ones hold it, too.
    Raises ValueError for values out of range.
    """

    service: Service
    rate: float
    replicas: int
    losers: Losers = NOT_STOPPED
    parities: tuple[ParityOffer, ...] = ()
    discipline: Discipline = "single"
    parity_pool: int | None = None

    def __post_init__(self) -> None:
        if self.parity_pool is not None:
            whole("parity_pool", self.parity_pool, 0)
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise ValueError(f"rate: expected queries per second > 0, got {self.rate!r}")
        whole("replicas", self.replicas, 1)
        if self.discipline not in DISCIPLINES:
            raise ValueError(f"discipline: expected one of {DISCIPLINES}, got {self.discipline!r}")
        if not (math.isfinite(self.service.mean) and self.service.mean > 0):
            raise ValueError(f"service: expected a mean > 0 seconds, got {self.service.mean!r}")
        if len({offer.k for offer in self.parities}) < len(self.parities):
            raise ValueError(f"parities: expected each k once, got {[offer.k for offer in self.parities]}")

    @property
    def utilisation(self) -> float:
        """Busy share of all replicas without any redundancy."""
        return self.rate * self.service.mean / self.replicas


@dataclass(frozen=True, slots=True)
class Limits:
    """What redundancy may cost.

    extra_work: server seconds beyond those of the queries' first calls, as a share of them.
    accuracy_loss: share of all answers that may become wrong by reconstruction, f x (A_d - A_a); None = any.
    copies: calls of one query at most, for plans that send them all at once.
    kinds: of plans that may be advised.
    load: share of the replicas' time that may be used, 0..1.
    headroom: a plan has to be stable at so many times the rate, too, as far as no redundancy would be.
    Raises ValueError for values out of range.
    """

    extra_work: float = 1.0
    accuracy_loss: float | None = None
    copies: int = 3
    kinds: frozenset[PlanKind] = field(default=frozenset({"none", "replicated", "hedged", "coded"}))
    load: float = 0.95
    headroom: float = 1.3

    def __post_init__(self) -> None:
        if not self.extra_work >= 0:
            raise ValueError(f"extra_work: expected >= 0, got {self.extra_work!r}")
        if self.accuracy_loss is not None and not 0 <= self.accuracy_loss <= 1:
            raise ValueError(f"accuracy_loss: expected 0..1, got {self.accuracy_loss}")
        whole("copies", self.copies, 1, 8)
        if not self.kinds <= set(PLAN_KINDS) - {"default", "backup"}:
            raise ValueError(
                f"kinds: expected some of none, replicated, hedged, coded, got {set(self.kinds)}"
            )
        if not 0 < self.load <= 1:
            raise ValueError(f"load: expected above 0 and at most 1, got {self.load}")
        if not 1 <= self.headroom <= 10:
            raise ValueError(f"headroom: expected 1..10, got {self.headroom}")
