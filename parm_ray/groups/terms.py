"""Terms: the plan that a group began under and what carries it out; they stay the same while it lives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from parm_ray.redundancy import Hedger, RedundancyPlan


class Recoverer(Protocol):
    """The part of a decoder the machine needs: set arithmetic, see `codes.base.Decoder`."""

    @property
    def k(self) -> int:
        """Slots of a group."""

    @property
    def r(self) -> int:
        """Parity rows."""

    def recoverable(
        self, present: frozenset[int], answered: frozenset[int], parities: frozenset[int]
    ) -> frozenset[int]:
        """Return the missing slots that could be decoded now."""


def unfit(plan: RedundancyPlan, code: Recoverer | None) -> str:
    """Return why a plan cannot be carried out with that code, naming the field; "" = it can."""
    if not plan.coded:
        return ""
    if code is None:
        return "code: expected a decoder for a coded plan, got None"
    for name, got, has in (("k", plan.k, code.k), ("r", plan.r, code.r)):
        if got != has:
            return f"{name}: expected {has}, for which there is a code, got {got}"
    return ""


@dataclass(slots=True)
class Terms:
    """code: None where nothing is coded. hedger: None where nothing is hedged."""

    plan: RedundancyPlan
    code: Recoverer | None = None
    hedger: Hedger | None = None


def terms_of(plan: RedundancyPlan, code: Recoverer | None, before: Hedger | None = None) -> Terms:
    """Return what carries out a plan. before: the hedger that was in force last; what it knows stays."""
    hedger = None
    if plan.hedge is not None:
        hedger = Hedger(plan.hedge) if before is None else before.follow(plan.hedge)
    return Terms(plan, code if plan.coded else None, hedger)
