"""Copies, hedges and backups, step by step."""

from __future__ import annotations

import pytest

from parm_ray.codes import make_code
from parm_ray.core import CallId, CallKind, GroupId, IllegalEvent, Outcome, QueryId
from parm_ray.groups import GroupMachine, actions, events
from parm_ray.redundancy import Hedge, RedundancyPlan

FIXED = Hedge("fixed", 0.05, budget_ratio=1.0)
OWN = CallId(GroupId(0), 0)
COPY = CallId(GroupId(0), 0, CallKind.COPY)
BACKUP = CallId(GroupId(0), 0, CallKind.BACKUP)


def submit(machine: GroupMachine, query: int = 0, *, protected: bool = True) -> list[actions.Action]:
    return machine.handle(events.Submit(QueryId(query), 0.0, 10.0, protected))


def outcomes(done: list[actions.Action]) -> list[Outcome]:
    return [action.outcome for action in done if isinstance(action, actions.Resolve)]


def of(kind: type, done: list[actions.Action]) -> list[actions.Action]:
    return [action for action in done if isinstance(action, kind)]


def hedge_timer(done: list[actions.Action]) -> list[actions.StartTimer]:
    return [
        action
        for action in done
        if isinstance(action, actions.StartTimer) and action.timer.kind is events.TimerKind.HEDGE
    ]


def test_a_hedge_goes_out_when_the_call_has_run_for_the_delay_and_the_first_answer_wins() -> None:
    machine = GroupMachine(RedundancyPlan("hedged", hedge=FIXED))
    assert not hedge_timer(submit(machine)), "a call that waits in its queue is not hedged"
    (timer,) = hedge_timer(machine.handle(events.Started(OWN, 1.0)))
    assert timer.at == pytest.approx(1.05)
    assert machine.handle(events.TimerFired(timer.timer, 1.05)) == [actions.DispatchCopy(COPY)]
    done = machine.handle(events.Answered(COPY, 1.1))
    assert outcomes(done) == [Outcome.COPY]
    assert actions.Withdraw(OWN) in done
    late = machine.handle(events.Answered(OWN, 2.0))
    assert not outcomes(late)
    assert machine.open_groups == 0


def test_a_hedge_that_is_slow_too_is_hedged_its_own_delay_after_it_started_and_there_are_no_more() -> None:
    machine = GroupMachine(RedundancyPlan("hedged", hedge=FIXED))
    second = COPY._replace(attempt=1)
    submit(machine)
    (timer,) = hedge_timer(machine.handle(events.Started(OWN, 0.0)))
    assert not hedge_timer(machine.handle(events.TimerFired(timer.timer, 0.05))), "it may wait in its queue"
    (timer,) = hedge_timer(machine.handle(events.Started(COPY, 0.2)))
    assert timer.at == pytest.approx(0.25)
    assert machine.handle(events.TimerFired(timer.timer, 0.25)) == [actions.DispatchCopy(second)]
    assert machine.handle(events.Started(second, 0.25)) == []
    done = machine.handle(events.Answered(second, 0.3))
    assert outcomes(done) == [Outcome.COPY]
    assert of(actions.Withdraw, done) == [actions.Withdraw(OWN), actions.Withdraw(COPY)]
    machine.handle(events.Answered(OWN, 0.5))
    machine.handle(events.Answered(COPY, 0.7))
    assert machine.open_groups == 0


def test_with_one_hedge_a_batch_there_is_no_second() -> None:
    once = Hedge("fixed", 0.05, max_hedges=1, budget_ratio=1.0)
    machine = GroupMachine(RedundancyPlan("hedged", hedge=once))
    submit(machine)
    (timer,) = hedge_timer(machine.handle(events.Started(OWN, 0.0)))
    machine.handle(events.TimerFired(timer.timer, 0.05))
    assert machine.handle(events.Started(COPY, 0.06)) == []


def test_where_the_first_call_has_failed_its_slow_hedge_is_hedged_all_the_same() -> None:
    machine = GroupMachine(RedundancyPlan("hedged", hedge=FIXED, crash_retries=0))
    submit(machine)
    (timer,) = hedge_timer(machine.handle(events.Started(OWN, 0.0)))
    machine.handle(events.TimerFired(timer.timer, 0.05))
    machine.handle(events.CallFailed(OWN, 0.06, "boom", crashed=False))
    (timer,) = hedge_timer(machine.handle(events.Started(COPY, 0.07)))
    assert of(actions.DispatchCopy, machine.handle(events.TimerFired(timer.timer, 0.12)))


def test_an_answer_in_time_stops_the_hedge() -> None:
    machine = GroupMachine(RedundancyPlan("hedged", hedge=FIXED))
    submit(machine)
    (timer,) = hedge_timer(machine.handle(events.Started(OWN, 0.0)))
    done = machine.handle(events.Answered(OWN, 0.01))
    assert outcomes(done) == [Outcome.ORIGINAL]
    assert actions.CancelTimer(timer.timer) in done


def test_without_budget_the_hedge_is_asked_for_again_and_the_call_goes_on() -> None:
    machine = GroupMachine(
        RedundancyPlan("hedged", hedge=Hedge("fixed", 0.05, budget_ratio=0.0, budget_floor_per_s=0.0))
    )
    submit(machine)
    (timer,) = hedge_timer(machine.handle(events.Started(OWN, 0.0)))
    done = machine.handle(events.TimerFired(timer.timer, 0.05))
    assert not of(actions.DispatchCopy, done)
    assert [again.at for again in hedge_timer(done)] == [pytest.approx(0.1)]
    assert outcomes(machine.handle(events.Answered(OWN, 0.2))) == [Outcome.ORIGINAL]


def test_a_query_that_opted_out_gets_no_copies() -> None:
    for plan in (
        RedundancyPlan("hedged", hedge=FIXED),
        RedundancyPlan("replicated", copies=3),
        RedundancyPlan("backup", backup=True),
    ):
        machine = GroupMachine(plan)
        done = submit(machine, protected=False)
        if machine.wants_start(GroupId(0)):
            done += machine.handle(events.Started(OWN, 0.0))
        assert not of(actions.DispatchCopy, done)
        assert not hedge_timer(done)


def test_of_copies_the_first_to_finish_answers_and_the_others_are_called_off() -> None:
    machine = GroupMachine(RedundancyPlan("replicated", copies=3))
    done = submit(machine)
    assert of(actions.DispatchCopy, done) == [
        actions.DispatchCopy(COPY), actions.DispatchCopy(COPY._replace(attempt=1))
    ]  # fmt: skip
    done = machine.handle(events.Answered(COPY._replace(attempt=1), 1.0))
    assert outcomes(done) == [Outcome.COPY]
    assert of(actions.Withdraw, done) == [actions.Withdraw(OWN), actions.Withdraw(COPY)]
    machine.handle(events.Withdrawn(OWN, 1.0))
    machine.handle(events.Answered(COPY, 2.0))
    assert machine.open_groups == 0


def test_keeping_the_first_to_start_sends_copies_one_by_one_until_one_starts() -> None:
    machine = GroupMachine(RedundancyPlan("replicated", copies=3, keep="start"))
    done = submit(machine)
    assert not of(actions.DispatchCopy, done)
    (timer,) = hedge_timer(done)
    done = machine.handle(events.TimerFired(timer.timer, 0.0))
    assert of(actions.DispatchCopy, done) == [actions.DispatchCopy(COPY)]
    assert machine.handle(events.Started(COPY, 0.0)) == [actions.Withdraw(OWN)]
    machine.handle(events.Withdrawn(OWN, 0.0))
    assert machine.handle(events.TimerFired(timer.timer, 0.0)) == []
    assert outcomes(machine.handle(events.Answered(COPY, 1.0))) == [Outcome.COPY]


def test_a_call_that_starts_at_once_is_never_copied() -> None:
    machine = GroupMachine(RedundancyPlan("replicated", copies=3, keep="start"))
    (timer,) = hedge_timer(submit(machine))
    machine.handle(events.Started(OWN, 0.0))
    assert machine.handle(events.TimerFired(timer.timer, 0.0)) == []


def test_a_backup_answers_only_after_the_hold_off_and_is_compared_with_the_late_original() -> None:
    machine = GroupMachine(RedundancyPlan("backup", backup=True, hold_off_s=0.07))
    assert actions.DispatchCopy(BACKUP) in submit(machine)
    done = machine.handle(events.Answered(BACKUP, 0.03))
    assert not outcomes(done)
    (timer,) = [action for action in done if isinstance(action, actions.StartTimer)]
    done = machine.handle(events.TimerFired(timer.timer, 0.07))
    assert outcomes(done) == [Outcome.BACKUP]
    late = machine.handle(events.Answered(OWN, 0.5))
    assert actions.Compare(GroupId(0), 0, Outcome.BACKUP) in late
    assert machine.open_groups == 0


def test_a_backup_answers_at_once_where_the_own_call_has_failed() -> None:
    machine = GroupMachine(RedundancyPlan("backup", backup=True, hold_off_s=5.0))
    submit(machine)
    assert not outcomes(machine.handle(events.CallFailed(OWN, 0.1, "boom", crashed=False)))
    assert outcomes(machine.handle(events.Answered(BACKUP, 0.2))) == [Outcome.BACKUP]


def test_a_failed_call_waits_for_its_copy_and_fails_only_with_it() -> None:
    machine = GroupMachine(RedundancyPlan("replicated", copies=2, crash_retries=0))
    submit(machine)
    assert not outcomes(machine.handle(events.CallFailed(OWN, 0.1, "boom", crashed=False)))
    assert outcomes(machine.handle(events.CallFailed(COPY, 0.2, "boom", crashed=False))) == [Outcome.FAILED]


def test_in_a_coding_group_the_copys_answer_serves_its_neighbours_reconstruction() -> None:
    """sum / subtract: slot 1 needs slot 0's outputs; here they come from slot 0's hedge."""
    code = make_code("sum", "subtract", 2, 1)
    machine = GroupMachine(RedundancyPlan("coded", k=2, r=1, hedge=FIXED), code.decoder)
    submit(machine, 0)
    submit(machine, 1)
    machine.handle(events.Encoded(GroupId(0), 0.0))
    (timer,) = hedge_timer(machine.handle(events.Started(OWN, 0.0)))
    assert of(actions.DispatchCopy, machine.handle(events.TimerFired(timer.timer, 0.05)))
    machine.handle(events.Answered(CallId(GroupId(0), 0, CallKind.PARITY), 0.06))
    done = machine.handle(events.Answered(COPY, 0.07))
    assert outcomes(done) == [Outcome.COPY]
    assert of(actions.Reconstruct, done) == [actions.Reconstruct(GroupId(0), (1,))]
    done = machine.handle(events.Reconstructed(GroupId(0), (1,), 0.07))
    assert outcomes(done) == [Outcome.RECONSTRUCTED]


def test_a_call_that_has_ended_cannot_start() -> None:
    machine = GroupMachine(RedundancyPlan("replicated", copies=2))
    submit(machine)
    machine.handle(events.Answered(OWN, 1.0))
    with pytest.raises(IllegalEvent, match="started"):
        machine.handle(events.Started(OWN, 2.0))
