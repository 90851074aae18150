"""Whatever the order of events, every query is resolved once and nothing is left behind."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parm_ray.codes import make_code
from parm_ray.core import CallId, CallKind, GroupId, IllegalEvent, QueryId
from parm_ray.groups import GroupMachine, Phase, events
from parm_ray.redundancy import Hedge, RedundancyPlan
from tests.support.random_driver import RandomDriver

CODES = [
    None,
    ("sum", "subtract", 2, 1),
    ("concat", "slot", 2, 1),
    ("concat", "slot", 4, 1),
    ("sum", "subtract", 3, 1),
    ("weighted", "subtract", 2, 2),
    ("weighted", "subtract", 3, 2),
]


COVERS = [
    {},
    {"hedge": Hedge("fixed", 0.01, budget_ratio=1.0)},
    {"hedge": Hedge("quantile", 0.0, quantile=0.5, least=2, budget_ratio=0.2)},
    {"hedge": Hedge("searched", None, least=3)},
    {"copies": 2},
    {"copies": 3, "keep": "start"},
    {"copy_share": 0.5},
    {"copy_share": 0.5, "hedge": Hedge("fixed", 0.01, budget_ratio=1.0)},
    {"backup": True},
    {"backup": True, "copies": 2},
]


def build(spec, *, batch, hold_off, default, retries, rng, cover=None):
    k, r = (spec[2], spec[3]) if spec else (1, 0)
    plan = RedundancyPlan(
        **(cover or {}),
        kind="coded" if spec else "none",
        k=k,
        r=r,
        fill_timeout_s=0.05,
        eager_share=0.5,
        hold_off_s=hold_off,
        deadline_s=0.2,
        has_default=default,
        crash_retries=retries,
    )
    machine = GroupMachine(
        plan,
        make_code(*spec).decoder if spec else None,
        batch_size=batch,
        batch_wait_s=0.01,
        grant=lambda: rng.random() < 0.9,
        spare=lambda share: rng.random() < 0.1,
        idle=lambda share: rng.random() < 0.5,
    )
    return RandomDriver(machine, rng)


@settings(max_examples=300, deadline=None)
@given(
    spec=st.sampled_from(CODES),
    cover=st.sampled_from(COVERS),
    seed=st.integers(0, 2**32),
    batch=st.sampled_from([1, 1, 2, 3]),
    hold_off=st.sampled_from([0.0, 0.03]),
    default=st.booleans(),
    retries=st.integers(0, 2),
    crash=st.sampled_from([0.0, 0.2, 0.7]),
    error=st.sampled_from([0.0, 0.1]),
    queries=st.integers(1, 40),
)
def test_every_query_is_resolved_exactly_once_and_memory_returns_to_zero(
    spec, cover, seed, batch, hold_off, default, retries, crash, error, queries
):
    rng = random.Random(seed)
    driver = build(
        spec, batch=batch, hold_off=hold_off, default=default, retries=retries, rng=rng, cover=cover
    )
    left = list(range(queries))
    while left:
        moves = ["submit", "cancel", *driver.moves()]
        kind = rng.choice(moves)
        if kind == "submit":
            deadline = driver.now + rng.choice([0.0, 0.05, 0.2])
            driver.feed(events.Submit(QueryId(left.pop(0)), driver.now, deadline, rng.random() < 0.9))
        elif kind == "cancel":
            if rng.random() < 0.1:
                driver.feed(events.Cancelled(QueryId(rng.randrange(queries)), driver.now))
        else:
            driver.move(kind, crash=crash, error=error)
    if rng.random() < 0.5:
        driver.feed(events.Flush(driver.now))
    driver.drain(crash=crash, error=error)

    assert driver.resolved.keys() | driver.abandoned == set(range(queries))
    assert driver.machine.open_queries == 0
    assert driver.machine.open_groups == 0
    assert not driver.kept
    assert not driver.inputs
    assert not driver.timers


def plans_of(spec):
    """Every plan that a server with this code and a backup pool can change to."""
    usual = {"fill_timeout_s": 0.05, "deadline_s": 0.2}
    for cover in COVERS:
        yield RedundancyPlan(**cover, **usual, hold_off_s=0.03)
        if spec:
            yield RedundancyPlan("coded", k=spec[2], r=spec[3], eager_share=0.5, **cover, **usual)


@settings(max_examples=300, deadline=None)
@given(
    spec=st.sampled_from(CODES),
    cover=st.sampled_from(COVERS),
    seed=st.integers(0, 2**32),
    batch=st.sampled_from([1, 1, 3]),
    retries=st.integers(0, 2),
    crash=st.sampled_from([0.0, 0.3]),
    queries=st.integers(1, 40),
)
def test_plans_may_change_at_any_time_and_no_query_is_lost(spec, cover, seed, batch, retries, crash, queries):
    rng = random.Random(seed)
    driver = build(spec, batch=batch, hold_off=0.0, default=False, retries=retries, rng=rng, cover=cover)
    plans = list(plans_of(spec))
    began: dict[int, RedundancyPlan] = {}
    left = list(range(queries))
    while left:
        kind = rng.choice(["submit", "cancel", "use", *driver.moves()])
        if kind == "submit":
            deadline = driver.now + rng.choice([0.05, 0.2])
            driver.feed(events.Submit(QueryId(left.pop(0)), driver.now, deadline, rng.random() < 0.9))
        elif kind == "cancel":
            if rng.random() < 0.1:
                driver.feed(events.Cancelled(QueryId(rng.randrange(queries)), driver.now))
        elif kind == "use":
            plan = rng.choice(plans)
            driver.feed(events.UsePlan(plan, driver.now))
            assert driver.machine.plan is plan
        else:
            driver.move(kind, crash=crash)
        for id, group in driver.machine._register.groups.items():
            assert began.setdefault(id, group.terms.plan) is group.terms.plan, "a plan is for life"
            if group.phase is Phase.FILLING:
                assert group.terms.plan is driver.machine.plan, "nobody joins a group of an old plan"
    driver.feed(events.Flush(driver.now))
    driver.drain(crash=crash)

    assert driver.resolved.keys() | driver.abandoned == set(range(queries))
    assert driver.machine.open_queries == 0
    assert driver.machine.open_groups == 0
    assert not driver.kept
    assert not driver.inputs
    assert not driver.timers


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), spec=st.sampled_from(CODES), cover=st.sampled_from(COVERS))
def test_a_change_to_the_same_plan_changes_nothing_but_the_open_group(seed, spec, cover):
    """The same random moves with and without it: where no group is open, the same actions come."""

    def run(again: bool) -> list[object]:
        rng = random.Random(seed)
        driver = build(spec, batch=1, hold_off=0.0, default=False, retries=1, rng=rng, cover=cover)
        for query in range(20):
            driver.feed(events.Submit(QueryId(query), driver.now, driver.now + 1.0))
            if again and driver.machine._assembler.open is None:
                assert driver.machine.handle(events.UsePlan(driver.machine.plan, driver.now)) == []
            if moves := driver.moves():
                driver.move(rng.choice(moves))
        driver.drain()
        return driver.log

    assert run(again=True) == run(again=False)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), spec=st.sampled_from(CODES[1:]))
def test_without_failures_and_deadlines_every_answer_is_original_or_reconstructed(seed, spec):
    rng = random.Random(seed)
    driver = build(spec, batch=1, hold_off=0.0, default=True, retries=0, rng=rng)
    for query in range(20):
        driver.feed(events.Submit(QueryId(query), driver.now, driver.now + 1e9))
        if (moves := [m for m in driver.moves() if m != "time"]) and rng.random() < 0.7:
            driver.move(rng.choice(moves))
    driver.feed(events.Flush(driver.now))
    while moves := [m for m in driver.moves() if m != "time"]:
        driver.move(rng.choice(moves))
    assert len(driver.resolved) == 20
    assert {o.value for o in driver.resolved.values()} <= {"original", "reconstructed"}
    assert driver.machine.open_groups == 0


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), spec=st.sampled_from(CODES[1:]), cover=st.sampled_from(COVERS))
def test_an_illegal_event_raises_and_changes_nothing(seed, spec, cover):
    rng = random.Random(seed)
    driver = build(spec, batch=1, hold_off=0.0, default=False, retries=1, rng=rng, cover=cover)
    for query in range(6):
        driver.feed(events.Submit(QueryId(query), driver.now, driver.now + 10.0))
        for _ in range(rng.randrange(3)):
            if moves := driver.moves():
                driver.move(rng.choice(moves), crash=0.2)
    outstanding = set(driver.queued + driver.running)
    before = repr(driver.machine._register)
    for event in [
        *(
            events.Answered(CallId(GroupId(g), place, parity, attempt), driver.now)
            for g in range(8)
            for place in range(-1, 4)
            for parity in CallKind
            for attempt in range(3)
            if CallId(GroupId(g), place, parity, attempt) not in outstanding
        ),
        *(events.Encoded(GroupId(g), driver.now) for g in range(8) if g not in driver.encoding),
        events.Reconstructed(GroupId(99), (0,), driver.now),
    ]:
        with pytest.raises(IllegalEvent):
            driver.machine.handle(event)
    assert repr(driver.machine._register) == before
