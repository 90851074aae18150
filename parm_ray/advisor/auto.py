"""When a running server changes its plan: not for a little, not on one look, not too often. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from parm_ray.redundancy import RedundancyPlan
from parm_ray.stats import Interval

Reason = Literal["better", "beyond_limits", "asked"]
"""Why a plan changed; a metric's label. "asked": somebody said so, no adviser."""

Verdict = Literal["change", "best", "too_little", "uncertain", "not_yet", "dwelling"]


@dataclass(frozen=True, slots=True)
class Rules:
    """gain: by what share 0..1 the objective has to be smaller, at least; repeats: so often in a row.

    dwell_s: seconds between two changes at least. None of it holds for a plan that is beyond its limits: from
    that a server goes at once.
    Raises ValueError for values out of range.
    """

    gain: float = 0.1
    repeats: int = 2
    dwell_s: float = 120.0

    def __post_init__(self) -> None:
        if not 0 <= self.gain < 1:
            raise ValueError(f"gain: expected at least 0 and below 1, got {self.gain}")
        if self.repeats < 1:
            raise ValueError(f"repeats: expected >= 1, got {self.repeats}")
        if not self.dwell_s >= 0:
            raise ValueError(f"dwell_s: expected seconds >= 0, got {self.dwell_s}")


@dataclass(frozen=True, slots=True)
class Rival:
    """A plan in comparison with the one in force: its objective as a share of that one's, in the same runs.

    interval: of the share, at 95 %.
    """

    plan: RedundancyPlan
    share: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Comparison:
    """rivals: the advised plan first, if it is another. refused: why the present one is beyond limits."""

    rivals: tuple[Rival, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """plan: in force since `since`, seconds. challenger: what won the last `wins` comparisons."""

    plan: RedundancyPlan
    since: float
    challenger: RedundancyPlan | None = None
    wins: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """plan: what to change to, and `reason`; None = stay. why: in words."""

    verdict: Verdict
    why: str
    plan: RedundancyPlan | None = None
    reason: Reason | None = None


def decide(state: State, found: Comparison, rules: Rules, now: float) -> tuple[State, Decision]:
    """Return what to do after a comparison, and the state after it.

    A plan has won if its share is at most 1 - gain and below 1 with all of its interval. It is counted by
    its mechanisms (`RedundancyPlan.name`): from one advice to the next delays differ a little. Of several
    that won the one that won before goes first, lest two that are as good keep each other out.
    """
    stay = replace(state, challenger=None, wins=0)
    if not found.rivals:
        return stay, Decision("best", f"{state.plan.name} is still advised")
    first = found.rivals[0]
    if found.refused:
        why = f"{state.plan.name} {found.refused}: {first.plan.name} is advised"
        return _changed(first.plan, now), Decision("change", why, first.plan, "beyond_limits")
    won = [one for one in found.rivals if one.share <= 1 - rules.gain and one.interval.high < 1]
    if not won:
        little = first.share > 1 - rules.gain
        limit = f"a change needs {1 - rules.gain:.2f}" if little else "which may be chance"
        return stay, Decision("too_little" if little else "uncertain", f"{_words(first)}: {limit}")
    name = None if state.challenger is None else state.challenger.name
    again = next((one for one in won if one.plan.name == name), None)
    best, wins = again or won[0], (state.wins if again else 0) + 1
    waiting = replace(state, challenger=best.plan, wins=wins)
    if wins < rules.repeats:
        return waiting, Decision("not_yet", f"{_words(best)}, {wins} of {rules.repeats} times in a row")
    if (left := state.since + rules.dwell_s - now) > 0:
        return waiting, Decision("dwelling", f"{_words(best)}, but {left:.0f} s too early for a change")
    why = f"{_words(best)}, {wins} times in a row"
    return _changed(best.plan, now), Decision("change", why, best.plan, "better")


def _changed(plan: RedundancyPlan, now: float) -> State:
    return State(plan, now)


def _words(one: Rival) -> str:
    low, high = one.interval
    return f"{one.plan.name} is at {one.share:.2f} ({low:.2f} to {high:.2f}) of the plan in force"
