"""Stand-ins: which slots a reconstruction or a backup's answer may answer now, and which must still wait."""

from __future__ import annotations

from parm_ray.core import Outcome
from parm_ray.groups.actions import Action, CancelTimer, Reconstruct, StartTimer
from parm_ray.groups.events import Timer, TimerKind
from parm_ray.groups.group import Decoding, Group, Slot
from parm_ray.groups.transitions import CallState


def use_backups(group: Group, now: float) -> list[Action]:
    """Answer with the backup model what the deployed model has not answered by the hold-off."""
    hold_off_s = group.terms.plan.hold_off_s
    actions: list[Action] = []
    for index, slot in enumerate(group.slots):
        backup = slot.backup
        if backup is None or backup.state is not CallState.ANSWERED or not slot.waiting:
            continue
        if _held_off(slot, hold_off_s, now):
            actions += _await_hold_off(group, index, hold_off_s)
        else:
            lateness = max(0.0, now - slot.dispatched - hold_off_s)
            actions += group.resolve(index, Outcome.BACKUP, lateness_s=lateness)
    return actions


def reconstruct(group: Group, now: float) -> list[Action]:
    """Decode what waits, can be decoded, and whose hold-off has passed."""
    code, hold_off_s = group.terms.code, group.terms.plan.hold_off_s
    assert code is not None, "parities were sent without a code"
    actions: list[Action] = []
    ready: list[int] = []
    for index in sorted(code.recoverable(group.present, group.answered(), group.parity_rows())):
        slot = group.slots[index]
        if not slot.waiting or slot.decoding is not Decoding.IDLE:
            continue
        if _held_off(slot, hold_off_s, now):
            actions += _await_hold_off(group, index, hold_off_s)
        else:
            slot.decoding = Decoding.PENDING
            ready.append(index)
    if ready:
        actions.append(Reconstruct(group.id, tuple(ready)))
    return actions


def reconstructed(group: Group, slots: tuple[int, ...], now: float) -> list[Action]:
    """Answer the queries of these slots that still wait with what was decoded."""
    actions: list[Action] = []
    for index in slots:
        slot = group.slots[index]
        slot.decoding = Decoding.IDLE
        lateness = max(0.0, now - slot.dispatched - group.terms.plan.hold_off_s)
        actions += group.resolve(index, Outcome.RECONSTRUCTED, lateness_s=lateness)
    return actions


def stop_hold_offs(group: Group) -> list[Action]:
    """Stop the timers that run."""
    return [
        CancelTimer(Timer(TimerKind.HOLD_OFF, group.id, index))
        for index, slot in enumerate(group.slots)
        if slot.hold_off_started
    ]


def _held_off(slot: Slot, hold_off_s: float, now: float) -> bool:
    """Whether it is too early. A slot whose calls have all failed has nothing to hold off for."""
    return slot.in_flight and now < slot.dispatched + hold_off_s


def _await_hold_off(group: Group, index: int, hold_off_s: float) -> list[Action]:
    slot = group.slots[index]
    if slot.hold_off_started:
        return []
    slot.hold_off_started = True
    return [StartTimer(Timer(TimerKind.HOLD_OFF, group.id, index), slot.dispatched + hold_off_s)]
