"""Covering: what a batch gets beside its first call and its group's parity: copies, hedges, a backup."""

from __future__ import annotations

from collections.abc import Callable

from parm_ray.core import CallId, CallKind
from parm_ray.groups.actions import Action, CancelTimer, StartTimer
from parm_ray.groups.events import Timer, TimerKind
from parm_ray.groups.group import Call, Group, Slot
from parm_ray.groups.transitions import CallState
from parm_ray.redundancy import Hedger

REFUSED_S = 0.01
"""How soon at the earliest a hedge that the budget refused asks again, seconds."""


class Covering:
    """Carries out copies, hedges and backups for slots of groups that are covered, by the group's own plan.

    idle: whether the deployed pool is as idle as a plan's copy_share asks for. learns: the hedger that was
    in force last, which learns from all calls, those of groups that began under another one included.
    """

    def __init__(self, idle: Callable[[float], bool], learns: Hedger | None) -> None:
        self._idle = idle
        self.learns = learns

    def dispatched(self, group: Group, index: int, now: float) -> list[Action]:
        """A slot's batch was sent: send with it what the plan sends of every batch."""
        actions: list[Action] = []
        terms, plan = group.terms, group.terms.plan
        if plan.keeps_first_start:
            actions += self._await_start(group, index, now)
        else:
            copies = plan.copies - 1
            if not copies and plan.copy_share is not None and self._idle(plan.copy_share):
                copies = 1
            actions += [group.copy(index) for _ in range(copies)]
        if plan.backup:
            actions.append(group.back_up(index))
        if terms.hedger is not None:
            terms.hedger.query(now)
        return actions

    def started(self, group: Group, call: Call, now: float) -> list[Action]:
        """A data call, or a copy of one, left its queue."""
        index, slot = call.id.place, group.slots[call.id.place]
        if call.state is not CallState.OUTSTANDING:
            return []
        if group.terms.plan.keeps_first_start:
            slot.started = now
            return group.call_off(other for other in slot.same() if other is not call)
        if group.terms.hedger is None or not group.covered:
            return []
        if call.id.kind is CallKind.DATA:
            slot.started = now
        return self._await_hedge(group, index, now)

    def _await_start(self, group: Group, index: int, now: float) -> list[Action]:
        """Ask to be told when what was just sent has had its chance to start at once.

        Copies of which one is kept go out one by one: of several idle replicas one should take the batch.
        """
        slot = group.slots[index]
        if slot.started is not None or len(slot.copies) + 1 >= group.terms.plan.copies:
            return []
        slot.hedge_started = True
        return [StartTimer(_timer(group, index), now)]

    def _await_hedge(self, group: Group, index: int, now: float, least_s: float = 0.0) -> list[Action]:
        """Ask to be told when the call that started now has run for the hedge delay, or `least_s` from now.

        A hedge that is slow as well is hedged in turn, its own delay after it started.
        """
        hedger, slot = group.terms.hedger, group.slots[index]
        delay = hedger.delay_s if hedger is not None else None
        if delay is None or slot.hedge_started or not _worth_a_hedge(group, slot):
            return []
        slot.hedge_started = True
        return [StartTimer(_timer(group, index), now + max(delay, least_s))]

    def hedge_due(self, group: Group, index: int, now: float) -> list[Action]:
        """A call of the slot has run for the hedge delay: send the batch again, if it is still worth it."""
        hedger, slot = group.terms.hedger, group.slots[index]
        slot.hedge_started = False
        if group.terms.plan.keeps_first_start:
            if slot.started is not None or not slot.waiting:
                return []
            return [group.copy(index), *self._await_start(group, index, now)]
        if not _worth_a_hedge(group, slot):
            return []
        if hedger is not None and hedger.allow(now):
            return [group.copy(index)]
        # The budget may have more by then; the deadline ends this.
        return self._await_hedge(group, index, now, REFUSED_S)

    def took(self, group: Group, call: CallId, now: float) -> None:
        """A first call came back, late or not: learn how long it ran."""
        started = group.slots[call.place].started
        if self.learns is not None and group.terms.hedger is not None and started is not None:
            self.learns.observe(now - started)

    def answered(self, group: Group, index: int) -> list[Action]:
        """The deployed model has answered a slot: nobody wants its other calls."""
        slot = group.slots[index]
        actions = group.call_off(slot.same())
        if slot.backup is not None:
            actions += group.call_off([slot.backup])
        return actions + self.cleared(group, index)

    def stop_hedges(self, group: Group) -> list[Action]:
        """Stop the hedge timers of all slots."""
        return [action for index in range(len(group.slots)) for action in self.cleared(group, index)]

    def cleared(self, group: Group, index: int) -> list[Action]:
        """Stop the slot's hedge timer, if it runs."""
        slot = group.slots[index]
        if not slot.hedge_started:
            return []
        slot.hedge_started = False
        return [CancelTimer(_timer(group, index))]


def _worth_a_hedge(group: Group, slot: Slot) -> bool:
    """Whether somebody waits, nothing but time is the matter, and the batch may have one more call."""
    hedge = group.terms.plan.hedge
    most = hedge.max_hedges if hedge is not None else 0
    return bool(slot.waiting) and len(slot.copies) < most and slot.in_flight


def _timer(group: Group, index: int) -> Timer:
    return Timer(TimerKind.HEDGE, group.id, index)
