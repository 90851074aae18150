"""A machine that is given another plan while it runs: old groups keep theirs, new ones go by the new one."""

from __future__ import annotations

import pytest

from parm_ray.codes import make_code
from parm_ray.core import CallId, CallKind, GroupId, IllegalEvent, Outcome, QueryId
from parm_ray.groups import GroupMachine, actions, events
from parm_ray.redundancy import Hedge, RedundancyPlan

CODE = make_code("concat", "slot", 2, 1).decoder
NONE = RedundancyPlan()
CODED = RedundancyPlan("coded", k=2, r=1)
COPIES = RedundancyPlan("replicated", copies=2)
FIXED = Hedge("fixed", 0.05, budget_ratio=1.0)
HEDGED = RedundancyPlan("hedged", hedge=FIXED)
BACKUP = RedundancyPlan("backup", backup=True)


def submit(machine: GroupMachine, query: int, now: float = 0.0, deadline: float = 10.0):
    return machine.handle(events.Submit(QueryId(query), now, deadline))


def use(machine: GroupMachine, plan: RedundancyPlan, now: float = 0.0) -> list[actions.Action]:
    return machine.handle(events.UsePlan(plan, now))


def own(group: int) -> CallId:
    return CallId(GroupId(group), 0)


def copy(group: int, number: int = 0) -> CallId:
    return CallId(GroupId(group), 0, CallKind.COPY, number)


def of(kind: type, done: list[actions.Action]) -> list[actions.Action]:
    return [action for action in done if isinstance(action, kind)]


def hedge_timers(done: list[actions.Action]) -> list[actions.StartTimer]:
    return [one for one in of(actions.StartTimer, done) if one.timer.kind is events.TimerKind.HEDGE]


def test_what_begins_after_the_change_goes_by_the_new_plan_and_nothing_else_does() -> None:
    machine = GroupMachine(NONE)
    assert not of(actions.DispatchCopy, submit(machine, 0))
    assert use(machine, COPIES) == []
    assert machine.plan is COPIES
    assert of(actions.DispatchCopy, submit(machine, 1)) == [actions.DispatchCopy(copy(1))]
    use(machine, NONE)
    assert not of(actions.DispatchCopy, submit(machine, 2))


def test_an_open_group_is_sealed_and_protected_under_its_own_plan_when_coding_is_switched_off() -> None:
    machine = GroupMachine(CODED, CODE)
    (fill,) = [t for t in of(actions.StartTimer, submit(machine, 0)) if t.timer.kind is events.TimerKind.FILL]
    done = use(machine, NONE, 0.01)
    assert actions.CancelTimer(fill.timer) in done
    assert of(actions.Encode, done) == [actions.Encode(GroupId(0), (0,))]
    assert of(actions.Sealed, done)[0].early
    later = submit(machine, 1)
    assert of(actions.Dispatch, later)[0].call.group == 1, "nobody joins the old group"
    assert not of(actions.Encode, later)
    parity = CallId(GroupId(0), 0, CallKind.PARITY)
    assert machine.handle(events.Encoded(GroupId(0), 0.02)) == [actions.DispatchParity(parity)]
    done = machine.handle(events.Answered(parity, 0.03))
    assert of(actions.Reconstruct, done) == [actions.Reconstruct(GroupId(0), (0,))]
    done = machine.handle(events.Reconstructed(GroupId(0), (0,), 0.03))
    assert [r.outcome for r in of(actions.Resolve, done)] == [Outcome.RECONSTRUCTED]
    machine.handle(events.Answered(own(0), 0.05))
    machine.handle(events.Answered(own(1), 0.05))
    assert machine.open_groups == 0


def test_coding_can_be_switched_on_and_groups_that_began_without_are_not_joined() -> None:
    machine = GroupMachine(NONE, CODE)
    submit(machine, 0)
    use(machine, CODED)
    first, second = submit(machine, 1), submit(machine, 2)
    assert {of(actions.Dispatch, done)[0].call.group for done in (first, second)} == {1}
    assert of(actions.Encode, second) == [actions.Encode(GroupId(1), (0, 1))]


def test_a_new_fill_timeout_holds_for_groups_that_begin_under_it() -> None:
    from dataclasses import replace

    machine = GroupMachine(replace(CODED, fill_timeout_s=1.0), CODE)
    use(machine, replace(CODED, fill_timeout_s=3.0), 5.0)
    (fill,) = [
        t for t in of(actions.StartTimer, submit(machine, 0, 6.0)) if t.timer.kind is events.TimerKind.FILL
    ]
    assert fill.at == 9.0


def test_a_hold_off_of_the_old_plan_is_kept_by_its_group() -> None:
    from dataclasses import replace

    machine = GroupMachine(replace(CODED, hold_off_s=5.0), CODE)
    submit(machine, 0)
    use(machine, CODED)
    machine.handle(events.Encoded(GroupId(0), 0.0))
    done = machine.handle(events.Answered(CallId(GroupId(0), 0, CallKind.PARITY), 1.0))
    assert not of(actions.Reconstruct, done)
    (timer,) = of(actions.StartTimer, done)
    assert timer.at == 5.0


def test_default_answers_and_retries_are_those_of_the_group() -> None:
    from dataclasses import replace

    machine = GroupMachine(replace(NONE, has_default=True, crash_retries=0))
    submit(machine, 0)
    submit(machine, 1)
    use(machine, replace(NONE, crash_retries=3))
    crashed = machine.handle(events.CallFailed(own(0), 0.1, "boom", crashed=True))
    assert [r.outcome for r in of(actions.Resolve, crashed)] == [Outcome.DEFAULT], "not sent again"
    deadline = events.Timer(events.TimerKind.DEADLINE, 1)
    late = machine.handle(events.TimerFired(deadline, 10.0))
    assert [r.outcome for r in of(actions.Resolve, late)] == [Outcome.DEFAULT]
    submit(machine, 2)
    assert of(actions.Dispatch, machine.handle(events.CallFailed(own(2), 0.1, "boom", crashed=True)))


def test_a_batch_that_is_being_collected_has_not_begun_and_goes_by_the_new_plan() -> None:
    machine = GroupMachine(NONE, batch_size=2, batch_wait_s=1.0)
    submit(machine, 0)
    use(machine, COPIES)
    assert len(of(actions.DispatchCopy, submit(machine, 1))) == 1


@pytest.mark.parametrize(
    ("plan", "code", "field"),
    [
        (CODED, None, "code"),
        (RedundancyPlan("coded", k=3, r=1), CODE, "k: expected 2"),
        (RedundancyPlan("coded", k=2, r=2), CODE, "r: expected 1"),
    ],
)
def test_a_plan_without_its_code_is_illegal_and_changes_nothing(plan, code, field) -> None:
    machine = GroupMachine(NONE if code is None else CODED, code)
    submit(machine, 0)
    before = repr(machine._register), machine.plan
    with pytest.raises(IllegalEvent, match=field):
        use(machine, plan)
    assert (repr(machine._register), machine.plan) == before
    with pytest.raises(ValueError, match=field):
        GroupMachine(plan, code)


# -- hedging -------------------------------------------------------------------------------------


def test_starts_are_wanted_of_groups_that_hedge_and_of_no_others() -> None:
    machine = GroupMachine(NONE)
    submit(machine, 0)
    use(machine, HEDGED)
    submit(machine, 1)
    use(machine, NONE)
    submit(machine, 2)
    assert [machine.wants_start(GroupId(g)) for g in (0, 1, 2)] == [False, True, False]
    assert machine.handle(events.Started(own(0), 1.0)) == [], "harmless all the same"
    (timer,) = hedge_timers(machine.handle(events.Started(own(1), 1.0)))
    assert machine.handle(events.TimerFired(timer.timer, 1.05)) == [actions.DispatchCopy(copy(1))]


def observe(machine: GroupMachine, first: int, n: int, seconds: float) -> None:
    for query in range(first, first + n):
        group = of(actions.Dispatch, submit(machine, query))[0].call.group
        machine.handle(events.Started(own(group), 0.0))
        machine.handle(events.Answered(own(group), seconds))


@pytest.mark.parametrize("between", [None, NONE])
def test_what_calls_took_is_known_to_the_next_rule_even_after_a_time_without_hedges(between) -> None:
    machine = GroupMachine(HEDGED)
    observe(machine, 0, 50, 0.3)
    if between is not None:
        use(machine, between)
    use(machine, RedundancyPlan("hedged", hedge=Hedge("quantile", quantile=0.5, least=50)))
    submit(machine, 50)
    (timer,) = hedge_timers(machine.handle(events.Started(own(50), 1.0)))
    assert timer.at == pytest.approx(1.3)


def test_a_rule_for_which_too_little_is_known_waits_for_more() -> None:
    machine = GroupMachine(HEDGED)
    observe(machine, 0, 49, 0.3)
    use(machine, RedundancyPlan("hedged", hedge=Hedge("quantile", quantile=0.5, least=50)))
    submit(machine, 49)
    assert not hedge_timers(machine.handle(events.Started(own(49), 1.0)))


def test_calls_of_old_groups_teach_the_rule_in_force() -> None:
    """Slow calls are those that are still out at a change: they must not be lost to the new rule."""
    machine = GroupMachine(HEDGED)
    for query in range(2):
        submit(machine, query)
        machine.handle(events.Started(own(query), 0.0))
    use(machine, RedundancyPlan("hedged", hedge=Hedge("quantile", quantile=0.9, least=2)))
    for query in range(2):
        machine.handle(events.Answered(own(query), 9.0))
    submit(machine, 2)
    (timer,) = hedge_timers(machine.handle(events.Started(own(2), 10.0)))
    assert timer.at == pytest.approx(19.0)


def test_a_change_is_no_second_budget() -> None:
    """One hedge a second and none per query: ten seconds' worth are saved, however often the rule changes."""
    machine = GroupMachine(NONE)
    sent = 0
    for query in range(40):
        if query % 5 == 0:
            rule = Hedge("fixed", 0.001 * query, budget_ratio=0.0, budget_floor_per_s=1.0)
            use(machine, RedundancyPlan("hedged", hedge=rule))
        submit(machine, query)
        (timer,) = hedge_timers(machine.handle(events.Started(own(query), 0.0)))
        sent += len(of(actions.DispatchCopy, machine.handle(events.TimerFired(timer.timer, 0.0))))
    assert sent == 10


def test_a_smaller_budget_holds_at_once_for_old_groups_too() -> None:
    machine = GroupMachine(HEDGED)
    submit(machine, 0)
    (timer,) = hedge_timers(machine.handle(events.Started(own(0), 0.0)))
    use(
        machine, RedundancyPlan("hedged", hedge=Hedge("fixed", 9.0, budget_ratio=0.0, budget_floor_per_s=0.0))
    )
    first = machine.handle(events.TimerFired(timer.timer, 0.05))
    assert len(of(actions.DispatchCopy, first)) == 1, "one is always saved"
    submit(machine, 1)
    (timer,) = hedge_timers(machine.handle(events.Started(own(1), 0.0)))
    assert not of(actions.DispatchCopy, machine.handle(events.TimerFired(timer.timer, 9.0)))


def test_backups_of_old_groups_answer_after_the_plan_has_gone() -> None:
    machine = GroupMachine(BACKUP)
    submit(machine, 0)
    use(machine, NONE)
    done = machine.handle(events.Answered(CallId(GroupId(0), 0, CallKind.BACKUP), 0.1))
    assert [r.outcome for r in of(actions.Resolve, done)] == [Outcome.BACKUP]
