"""Covering: what a batch gets beside its first call and its group's parity: copies, hedges, a backup."""

from __future__ import annotations

from collections.abc import Callable

from parm_ray.core import CallId, CallKind
from parm_ray.groups.actions import Action, CancelTimer, StartTimer
from parm_ray.groups.events import Timer, TimerKind
from parm_ray.groups.group import Call, Group, Slot
from parm_ray.groups.transitions import CallState
from parm_ray.redundancy import Hedger, RedundancyPlan

REFUSED_S = 0.01
"""How soon at the earliest a hedge that the budget refused asks again, seconds."""


class Covering:
    """Carries out the plan's copies, hedge and backup for slots of groups that are covered.

    idle: whether the deployed pool is as idle as the plan's copy_share asks for.
    """

    def __init__(self, plan: RedundancyPlan, idle: Callable[[], bool]) -> None:
        self._plan, self._idle = plan, idle
        self._hedger = Hedger(plan.hedge) if plan.hedge is not None else None
        self._keeps_first_start = plan.copies > 1 and plan.keep == "start"

    @property
    def wants_starts(self) -> bool:
        """Whether it has to be told when calls start."""
        return self._hedger is not None or self._keeps_first_start

    def dispatched(self, group: Group, index: int, now: float) -> list[Action]:
        """A slot's batch was sent: send with it what the plan sends of every batch."""
        actions: list[Action] = []
        if self._keeps_first_start:
            actions += self._await_start(group, index, now)
        else:
            copies = self._plan.copies - 1
            if not copies and self._plan.copy_share is not None and self._idle():
                copies = 1
            actions += [group.copy(index) for _ in range(copies)]
        if self._plan.backup:
            actions.append(group.back_up(index))
        if self._hedger is not None:
            self._hedger.query(now)
        return actions

    def started(self, group: Group, call: Call, now: float) -> list[Action]:
        """A data call, or a copy of one, left its queue."""
        index, slot = call.id.place, group.slots[call.id.place]
        if call.state is not CallState.OUTSTANDING:
            return []
        if self._keeps_first_start:
            slot.started = now
            return group.call_off(other for other in slot.same() if other is not call)
        if self._hedger is None or not group.covered:
            return []
        if call.id.kind is CallKind.DATA:
            slot.started = now
        return self._await_hedge(group, index, now)

    def _await_start(self, group: Group, index: int, now: float) -> list[Action]:
        """Ask to be told when what was just sent has had its chance to start at once.

        Copies of which one is kept go out one by one: of several idle replicas one should take the batch.
        """
        slot = group.slots[index]
        if slot.started is not None or len(slot.copies) + 1 >= self._plan.copies:
            return []
        slot.hedge_started = True
        return [StartTimer(_timer(group, index), now)]

    def _await_hedge(self, group: Group, index: int, now: float, least_s: float = 0.0) -> list[Action]:
        """Ask to be told when the call that started now has run for the hedge delay, or `least_s` from now.

        A hedge that is slow as well is hedged in turn, its own delay after it started.
        """
        delay = self._hedger.delay_s if self._hedger is not None else None
        slot = group.slots[index]
        if delay is None or slot.hedge_started or not self._worth_a_hedge(slot):
            return []
        slot.hedge_started = True
        return [StartTimer(_timer(group, index), now + max(delay, least_s))]

    def hedge_due(self, group: Group, index: int, now: float) -> list[Action]:
        """A call of the slot has run for the hedge delay: send the batch again, if it is still worth it."""
        slot = group.slots[index]
        slot.hedge_started = False
        if self._keeps_first_start:
            if slot.started is not None or not slot.waiting:
                return []
            return [group.copy(index), *self._await_start(group, index, now)]
        if not self._worth_a_hedge(slot):
            return []
        if self._hedger is not None and self._hedger.allow(now):
            return [group.copy(index)]
        # The budget may have more by then; the deadline ends this.
        return self._await_hedge(group, index, now, REFUSED_S)

    def _worth_a_hedge(self, slot: Slot) -> bool:
        """Whether somebody waits, nothing but time is the matter, and the batch may have one more call."""
        most = self._plan.hedge.max_hedges if self._plan.hedge is not None else 0
        return bool(slot.waiting) and len(slot.copies) < most and slot.in_flight

    def took(self, group: Group, call: CallId, now: float) -> None:
        """A first call came back, late or not: learn how long it ran."""
        started = group.slots[call.place].started
        if self._hedger is not None and started is not None:
            self._hedger.observe(now - started)

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


def _timer(group: Group, index: int) -> Timer:
    return Timer(TimerKind.HEDGE, group.id, index)
