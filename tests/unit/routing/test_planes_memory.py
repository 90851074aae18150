"""A control plane that takes another's place goes on from its last plan: versions, penalties, rates."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

from parm_ray.routing.fleet import MM1, Engine, Fleet
from parm_ray.routing.fleet.memory import Memory
from parm_ray.routing.fleet.snapshot import BadSnapshot, Snapshot
from parm_ray.routing.planes import Ages, ControlPlane, ControlRule, PenaltyRule, Report, Seen
from tests.support.fleets import published, three_regions

RULE = ControlRule(ages=Ages(stale_s=5, lost_s=60))
FLEET = replace(three_regions(0.5), switching_s=0.02)


def hear(control: ControlPlane, now: float, slow: dict[str, float], failing: str = "") -> None:
    """One interval of one second of every front end; engines take so many times what they should."""
    rng = np.random.default_rng(int(now))
    for name, rate in (("A", 45), ("B", 60), ("C", 20)):
        seen = {}
        for engine in "ABC":
            # Who is slow gets few: what it has is told from what it was planned to have.
            many = 4.0 if engine in slow else 12.0
            bad = Seen(failures=many) if engine == failing else Seen(many, many * 0.025 * slow.get(engine, 1))
            seen[engine] = bad
        count = int(rng.poisson(rate))
        control.inputs.report(Report(name, "0", 1.0, {"default": count}, engines=seen), now)


def ran(seconds: int, rule: ControlRule = RULE, fleet: Fleet = FLEET, **how: object) -> ControlPlane:
    control = ControlPlane(fleet, rule)
    for n in range(seconds):
        hear(control, float(n), **how)  # type: ignore[arg-type]
        control.decide(float(n), 1000.0 + n)
        assert control.failed is None
    return control


def replaced(control: ControlPlane, rule: ControlRule = RULE, fleet: Fleet = FLEET) -> ControlPlane:
    """Another one, which has heard what a front end holds, through JSON, and nothing else."""
    assert control.snapshot is not None
    other = ControlPlane(fleet, rule)
    other.adopt(Snapshot.from_json(control.snapshot.to_json()), 0.0, 1.0)
    return other


def test_a_control_plane_that_was_replaced_decides_as_if_it_had_not_been() -> None:
    one = ran(4, slow={"C": 8.0})
    assert 0 < one.penalties.multipliers["C"] < 0.1
    assert one.snapshot is not None
    other = ControlPlane(FLEET, RULE)
    for n in range(4, 16):
        # Back to what it should be from the eighth second on.
        slow = {"C": 8.0} if n < 8 else {}
        for control in (one, other):
            hear(control, float(n), slow)
        if n == 4:
            other.adopt(Snapshot.from_json(one.snapshot.to_json()), float(n), 1.0)
        a, b = (control.decide(float(n), 1000.0 + n) for control in (one, other))
        assert a is not None
        assert b is not None
        assert b.version == a.version
        assert b.rates == pytest.approx(a.rates)
        assert b.weights == pytest.approx(a.weights, abs=1e-6)
        assert b.penalties == a.penalties
        assert b.memory == a.memory
    assert one.penalties.multipliers["C"] == 1


def test_nothing_is_unlearned_by_silence() -> None:
    one = ran(4, slow={"C": 8.0})
    left = one.penalties.multipliers["C"]
    other = replaced(one)
    for n in range(3):
        snapshot = other.decide(float(n), 0.0)
        assert snapshot is not None
        assert snapshot.penalties["C"] == (left, one.penalties.reasons["C"])
        assert snapshot.version == 5 + n
        # What front ends had come to, and not what the file says.
        assert snapshot.rates == pytest.approx(one.snapshot.rates if one.snapshot else None)
    assert other.inputs.ages(1.0)["demand of A"] == pytest.approx(2.0)
    # A minute later nothing is known any more.
    assert other.inputs.fleet(100.0).rates == pytest.approx(FLEET.rates)
    assert other.inputs.ages(100.0)["demand of A"] is None


def test_a_penalty_that_is_lifted_for_want_of_room_is_not_forgotten_for_it() -> None:
    rule = replace(RULE, smoothing_s=0.0)
    one = ran(4, rule, slow={"C": 8.0})
    left = one.penalties.multipliers["C"]
    assert left < 0.1
    for n in range(4, 6):
        for name, count in (("A", 100), ("B", 130), ("C", 45)):
            one.inputs.report(Report(name, "0", 1.0, {"default": count}), float(n))
        one.decide(float(n), 0.0)
    assert one.snapshot is not None
    assert one.snapshot.penalties["C"][0] == 1
    assert "lifted" in one.snapshot.penalties["C"][1]
    assert replaced(one, rule).penalties.multipliers["C"] == left


def test_an_engine_that_fails_is_not_lifted_by_the_next_one_either() -> None:
    one = ran(4, slow={}, failing="B")
    assert replaced(one).penalties.failing == {"B"}


def test_a_feedback_controller_goes_on_with_its_shares() -> None:
    rule = replace(RULE, policy="feedback")
    one = ran(6, rule, slow={"C": 4.0})
    other = replaced(one, rule)
    for control in (one, other):
        hear(control, 6.0, {"C": 4.0})
    a, b = (control.decide(6.0, 0.0) for control in (one, other))
    assert a is not None
    assert b is not None
    assert a.weights[0, 2] < 0.3
    assert b.weights == pytest.approx(a.weights)


def foreign() -> list[Fleet]:
    a, b, c = FLEET.engines
    return [
        replace(FLEET, engines=(a, b, Engine("D", c.latency))),
        replace(FLEET, engines=(a, b, Engine("C", MM1(81.0)))),
        replace(FLEET, engines=(a, b, replace(c, has=frozenset({"eu"})))),
        replace(FLEET, engines=(b, a, c)),
        replace(FLEET, demands=(*FLEET.demands[:2], replace(FLEET.demands[2], name="odd"))),
    ]


@pytest.mark.parametrize("fleet", foreign(), ids=["name", "speed", "capability", "order", "demand"])
def test_a_plan_of_another_fleet_is_not_gone_on_from(fleet: Fleet) -> None:
    one = ran(4, slow={"C": 8.0})
    other = ControlPlane(fleet, RULE)
    assert one.snapshot is not None
    with pytest.raises(ValueError, match="fleet: expected a plan of"):
        other.adopt(one.snapshot, 0.0, 1.0)
    assert set(other.penalties.multipliers.values()) == {1.0}
    assert other.snapshot is None


def test_nor_is_one_whose_names_are_not_those_of_the_fleet_that_it_says_it_is_of() -> None:
    one = ran(4, slow={"C": 8.0})
    assert one.snapshot is not None
    for forged, why in (
        (replace(one.snapshot, engines=("A", "B", "D")), "engines: expected A, B, C, got A, B, D"),
        (replace(one.snapshot, demands=("A/x", "B/x", "C/x")), "demands: expected A/default"),
    ):
        with pytest.raises(ValueError, match=why):
            ControlPlane(FLEET, RULE).adopt(forged, 0.0, 1.0)


def test_health_rates_and_ways_are_what_changes_of_a_fleet_that_stays_the_same() -> None:
    one = ran(2, slow={})
    a, b, c = FLEET.engines
    now = replace(FLEET, engines=(a, replace(b, health=0.0), c), network_s=FLEET.network_s * 2)
    replaced(one, fleet=replace(now, demands=three_regions(0.3).demands))


def test_a_plan_that_is_too_old_is_not_gone_on_from_nor_one_of_before() -> None:
    one = ran(4, slow={"C": 8.0})
    assert one.snapshot is not None
    other = ControlPlane(FLEET, RULE)
    for age in (60.1, float("nan")):
        with pytest.raises(ValueError, match="age: expected at most 60 s"):
            other.adopt(one.snapshot, 0.0, age)
    other.adopt(one.snapshot, 0.0, 60.0)
    for version in (3, 4):
        with pytest.raises(ValueError, match="version: expected above 4"):
            other.adopt(replace(one.snapshot, version=version), 0.0, 1.0)
    newer = replace(one.snapshot, version=9)
    other.adopt(newer, 0.0, 1.0)
    other.beyond(7)
    made = other.decide(0.0, 0.0)
    assert made is not None
    assert made.version == 10


def test_a_plan_without_a_memory_is_of_no_fleet() -> None:
    with pytest.raises(ValueError, match="fleet"):
        ControlPlane(FLEET, RULE).adopt(published(FLEET, 3), 0.0, 0.0)


@pytest.mark.parametrize(
    ("memory", "why"),
    [
        (Memory(multipliers={"D": 0.5}), r"memory.multipliers: expected engines of the plan, got D"),
        (Memory(multipliers={"C": 0.0}), r"memory.multipliers: C: expected above 0"),
        (Memory(multipliers={"C": float("nan")}), r"memory.multipliers: C: expected above 0"),
        (Memory(failing=frozenset({"odd"})), r"memory.failing: expected engines of the plan, got odd"),
        (Memory(shares={"C": -1.0}), r"memory.shares: C: expected >= 0"),
    ],
)
def test_a_memory_that_cannot_be_is_a_bad_snapshot(memory: Memory, why: str) -> None:
    text = replace(published(FLEET, 3), memory=memory).to_json()
    with pytest.raises(BadSnapshot, match=why):
        Snapshot.from_json(text)


def test_a_damaged_memory_is_a_bad_snapshot() -> None:
    content = json.loads(ran(4, slow={"C": 8.0}).snapshot.to_json())  # type: ignore[union-attr]
    healed = copy.deepcopy(content)
    healed["memory"]["multipliers"] = {}
    with pytest.raises(BadSnapshot, match="checksum"):
        Snapshot.from_json(json.dumps(healed))


def test_what_is_remembered_does_not_depend_on_how_penalties_are_ruled() -> None:
    one = ran(4, slow={"C": 8.0})
    other = replaced(one, replace(RULE, penalty=PenaltyRule(floor=0.3)))
    assert other.penalties.multipliers == one.penalties.multipliers
