"""Settling: losers are called back or expected-and-dropped, and finished groups are forgotten.

Everything that ends is ended here. A data call is called back only when every query of its group
is resolved: until then a neighbour's reconstruction may need its outputs (subtraction does), unless
another call of the same batch has brought them.
"""

from __future__ import annotations

from parm_ray.core import Outcome
from parm_ray.groups.actions import Action, DropInputs, Forget
from parm_ray.groups.group import Decoding, Group, Slot
from parm_ray.groups.transitions import CallState, Phase, Step


def give_up(group: Group) -> list[Action]:
    """Resolve the queries that nothing outstanding can answer any more.

    Such a query gets the default answer if there is one, else its last error; it does not sit out
    its deadline.
    """
    actions: list[Action] = []
    if not group.unresolved:
        return actions
    for index, slot in enumerate(group.slots):
        if slot.waiting and not _hope(group, index, slot):
            if group.terms.plan.has_default:
                actions += group.resolve(index, Outcome.DEFAULT)
            else:
                actions += group.resolve(index, Outcome.FAILED, error=slot.error)
    return actions


def _hope(group: Group, index: int, slot: Slot) -> bool:
    """Whether some outstanding work may still answer the slot."""
    code = group.terms.code
    if slot.in_flight or slot.decoding is Decoding.PENDING:
        return True
    if slot.backup is not None and slot.backup.state in (CallState.OUTSTANDING, CallState.ANSWERED):
        return True
    if slot.decoding is Decoding.BROKEN or code is None or not group.protect:
        return False
    parities = group.parity_rows(also=CallState.OUTSTANDING)
    if group.phase in (Phase.FILLING, Phase.ENCODING):
        parities = frozenset(range(group.terms.plan.r))
    return index in code.recoverable(group.present, group.answered(also=CallState.OUTSTANDING), parities)


def settle(group: Group) -> list[Action]:
    """Return what is left to do for a group after an event; ends with Forget when nothing is."""
    actions: list[Action] = []
    if group.unresolved:
        return actions
    if group.phase in (Phase.ENCODING, Phase.RACING):
        group.step(Step.ALL_RESOLVED)
        actions.append(DropInputs(group.id))
        actions += group.call_off(group.calls())
    if group.phase is Phase.SETTLING and not _busy(group):
        group.step(Step.ALL_SETTLED)
        actions.append(Forget(group.id))
    return actions


def _busy(group: Group) -> bool:
    return (
        group.encoding
        or group.open_calls > 0
        or any(slot.decoding is Decoding.PENDING for slot in group.slots)
    )
