"""Queueing and placement of one pool."""

import pytest

from parm_ray.routing import make_queue
from parm_ray.routing.replicas import MAX_PROBATION_S, PROBATION_S


def queue(nodes=None, **kwargs):
    pool = make_queue(**kwargs)
    pool.set_replicas(nodes if nodes is not None else {"a": "n1", "b": "n1", "c": "n2"})
    return pool


def start_all(pool, now=0.0):
    placed = []
    while (placement := pool.start(now)) is not None:
        placed.append(placement)
    return placed


def test_single_queue_is_first_in_first_out_and_one_call_per_free_slot():
    pool = queue()
    for call in range(5):
        pool.push(call, group=call)
    first = start_all(pool)
    assert [p.call for p in first] == [0, 1, 2]
    assert {p.replica for p in first} == {"a", "b", "c"}
    assert (pool.queued, pool.busy) == (2, 3)
    pool.finish(1, first[1].replica)
    assert pool.start(0.0) == (3, first[1].replica)


def test_a_stalled_replica_holds_one_call_and_no_more():
    pool = queue({"a": "n", "b": "n"})
    for call in range(6):
        pool.push(call, call)
    placed = start_all(pool)
    stalled = placed[0].replica
    served, current = [], placed[1]
    while current is not None:
        served.append(current.call)
        pool.finish(current.call, current.replica)
        current = pool.start(0.0)
        assert current is None or current.replica != stalled
    assert served == [1, 2, 3, 4, 5]


def test_members_of_a_group_avoid_each_others_replicas_then_nodes():
    pool = queue(slots=2)
    pool.push("x0", "x")
    first = pool.start(0.0)
    pool.push("x1", "x")
    second = pool.start(0.0)
    assert second.replica != first.replica
    nodes = {"a": "n1", "b": "n1", "c": "n2"}
    assert nodes[second.replica] != nodes[first.replica]
    assert pool.nodes_of("x") == {"n1", "n2"}


def test_nodes_used_by_other_pools_are_avoided():
    pool = queue()
    pool.push("x0", "x")
    assert pool.start(0.0, used_nodes=lambda group: ["n1"]).replica == "c"


def test_placement_rules_never_idle_a_replica():
    pool = queue({"a": "n"}, slots=2)
    pool.push("x0", "x")
    pool.push("x1", "x")
    assert [p.replica for p in start_all(pool)] == ["a", "a"]


def test_a_crashed_replica_is_tried_last_and_later_each_time():
    pool = queue({"a": "n", "b": "n"})
    pool.push(1, 1)
    dead = pool.start(0.0).replica
    pool.finish(1, dead, crashed=True)
    assert pool.suspend(dead, 0.0) == PROBATION_S
    for call in (2, 3):
        pool.push(call, call)
    assert [p.replica for p in start_all(pool)] == [{"a": "b", "b": "a"}[dead]]
    again = pool.start(PROBATION_S)
    assert again == (3, dead)
    pool.finish(3, dead, crashed=True)
    assert pool.suspend(dead, PROBATION_S) == PROBATION_S + 2 * PROBATION_S
    for _ in range(10):
        last = pool.suspend(dead, 0.0)
    assert last == MAX_PROBATION_S


def test_success_ends_probation():
    pool = queue({"a": "n"})
    pool.suspend("a", 0.0)
    pool.push(1, 1)
    assert pool.start(0.1) is None
    assert pool.start(PROBATION_S) == (1, "a")
    pool.finish(1, "a")
    assert pool.suspend("a", 10.0) == 10.0 + PROBATION_S


def test_withdraw_removes_only_what_waits():
    pool = queue({"a": "n"})
    pool.push(1, 1)
    pool.push(2, 2)
    pool.start(0.0)
    assert not pool.withdraw(1)
    assert pool.withdraw(2)
    assert pool.queued == 0


def test_a_vanished_replica_takes_no_calls_and_its_call_still_finishes():
    pool = queue({"a": "n", "b": "n"})
    pool.push(1, 1)
    gone = pool.start(0.0).replica
    rest = {"a": "b", "b": "a"}[gone]
    pool.set_replicas({rest: "n"})
    pool.finish(1, gone)
    assert pool.suspend(gone, 0.0) is None
    assert (pool.replicas, pool.busy) == (1, 0)


def test_nothing_starts_without_replicas_and_calls_wait_for_them():
    pool = queue({})
    pool.push(1, 1)
    assert pool.start(0.0) is None
    pool.set_replicas({"a": "n"})
    assert pool.start(0.0) == (1, "a")


def test_round_robin_decides_at_arrival_and_calls_wait_behind_a_slow_replica():
    pool = queue({"a": "n", "b": "n"}, discipline="round_robin")
    for call in range(4):
        pool.push(call, call)
    assert [tuple(p) for p in start_all(pool)] == [(0, "a"), (1, "b")]
    pool.finish(1, "b")
    # Call 2 belongs to the busy "a"; call 3 passes it on "b".
    assert [tuple(p) for p in start_all(pool)] == [(3, "b")]
    pool.finish(0, "a")
    assert [tuple(p) for p in start_all(pool)] == [(2, "a")]


def test_round_robin_moves_waiting_calls_off_a_vanished_replica():
    pool = queue({"a": "n", "b": "n"}, discipline="round_robin")
    for call in range(3):
        pool.push(call, call)
    start_all(pool)
    pool.set_replicas({"b": "n"})
    pool.finish(1, "b")
    assert pool.start(0.0) == (2, "b")


def test_unknown_discipline_is_refused():
    with pytest.raises(ValueError, match="single"):
        make_queue("lifo")
