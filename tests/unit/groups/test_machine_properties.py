"""Whatever the order of events, every query is resolved once and nothing is left behind."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parm_ray.codes import make_code
from parm_ray.core import CallId, CallKind, GroupId, IllegalEvent, QueryId
from parm_ray.groups import GroupMachine, events
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
        spare=lambda: rng.random() < 0.1,
        idle=lambda: rng.random() < 0.5,
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
