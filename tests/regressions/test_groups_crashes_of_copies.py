"""Crashes beside copies, hedges and hold-offs: what a retry is owed, and what it must not inherit."""

from parm_ray.codes import make_code
from parm_ray.core import CallId, CallKind, GroupId, Outcome, QueryId
from parm_ray.groups import GroupMachine, actions, events
from parm_ray.redundancy import Hedge, RedundancyPlan

OWN = CallId(GroupId(0), 0)
COPY = CallId(GroupId(0), 0, CallKind.COPY)


def of(kind: type, done: list[actions.Action]) -> list:
    return [action for action in done if isinstance(action, kind)]


def test_the_kept_copys_replica_dies_and_the_batch_is_sent_again() -> None:
    machine = GroupMachine(RedundancyPlan("replicated", copies=2, keep="start"))
    done = machine.handle(events.Submit(QueryId(0), 0.0, 9.0))
    (timer,) = [a.timer for a in of(actions.StartTimer, done) if a.timer.kind is events.TimerKind.HEDGE]
    machine.handle(events.TimerFired(timer, 0.0))
    machine.handle(events.Started(COPY, 1.0))
    machine.handle(events.Withdrawn(OWN, 1.0))
    done = machine.handle(events.CallFailed(COPY, 2.0, "replica died", crashed=True))
    assert of(actions.Dispatch, done) == [actions.Dispatch(OWN._replace(attempt=1), (QueryId(0),))]
    done = machine.handle(events.CallFailed(OWN._replace(attempt=1), 3.0, "again", crashed=True))
    (resolved,) = of(actions.Resolve, done)
    assert (resolved.outcome, resolved.error) == (Outcome.FAILED, "again")


def test_while_a_copy_still_runs_a_dead_call_is_not_sent_again() -> None:
    machine = GroupMachine(RedundancyPlan("replicated", copies=2))
    machine.handle(events.Submit(QueryId(0), 0.0, 9.0))
    assert not of(actions.Dispatch, machine.handle(events.CallFailed(OWN, 1.0, "died", crashed=True)))
    assert of(actions.Dispatch, machine.handle(events.CallFailed(COPY, 2.0, "died", crashed=True)))


def test_a_retry_is_hedged_by_its_own_start() -> None:
    machine = GroupMachine(RedundancyPlan("hedged", hedge=Hedge("fixed", 1.0, budget_ratio=1.0)))
    machine.handle(events.Submit(QueryId(0), 0.0, 9.0))
    (timer,) = of(actions.StartTimer, machine.handle(events.Started(OWN, 0.0)))
    done = machine.handle(events.CallFailed(OWN, 0.9, "died", crashed=True))
    assert actions.CancelTimer(timer.timer) in done
    (again,) = of(actions.StartTimer, machine.handle(events.Started(OWN._replace(attempt=1), 5.0)))
    assert again.at == 6.0


def test_a_hold_off_counts_from_the_first_dispatch_and_lifts_no_neighbours() -> None:
    code = make_code("concat", "slot", 2, 1)
    plan = RedundancyPlan("coded", k=2, r=1, hold_off_s=1.0)
    machine = GroupMachine(plan, code.decoder)
    machine.handle(events.Submit(QueryId(0), 0.0, 99.0))
    machine.handle(events.Submit(QueryId(1), 0.9, 99.0))
    machine.handle(events.Encoded(GroupId(0), 0.9))
    done = machine.handle(events.Answered(CallId(GroupId(0), 0, CallKind.PARITY), 0.95))
    timers = {action.timer.slot: action for action in of(actions.StartTimer, done)}
    assert {slot: action.at for slot, action in timers.items()} == {0: 1.0, 1: 1.9}
    machine.handle(events.CallFailed(OWN, 0.99, "died", crashed=True))
    done = machine.handle(events.TimerFired(timers[0].timer, 1.0))
    assert of(actions.Reconstruct, done) == [actions.Reconstruct(GroupId(0), (0,))]
