"""Snapshots: whole or not at all, and in words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parm_ray.config.fleet_file import load_fleet
from parm_ray.routing.fleet import MM1, Engine, solve
from parm_ray.routing.fleet.snapshot import BadSnapshot, Snapshot, diff, freshness

FILE = Path(__file__).parents[3] / "serve_configs" / "routing" / "three_regions.yaml"
FLEET = load_fleet(FILE)


def snapshot(version: int = 1, **changes: object) -> Snapshot:
    fleet = replace(FLEET, **changes)  # type: ignore[arg-type]
    return Snapshot.of(solve(fleet), version=version, created=1000.0, ages_s={"demand": 2.0, "network": 30.0})


def dead_b(version: int = 2) -> Snapshot:
    a, b, c = FLEET.engines
    return snapshot(version, engines=(a, replace(b, health=0.0), c))


@pytest.mark.parametrize("made", [snapshot(), dead_b()], ids=["whole", "shedding"])
def test_it_survives_json_bit_for_bit(made: Snapshot) -> None:
    read = Snapshot.from_json(made.to_json())
    for name in ("weights", "network_s", "capacities", "loads", "prices_s", "shed"):
        np.testing.assert_array_equal(getattr(read, name), getattr(made, name))
    assert (read.version, read.created, read.ages_s, read.binding) == (
        made.version, made.created, made.ages_s, made.binding
    )  # fmt: skip
    assert read.mean_s == made.mean_s


def test_what_was_changed_on_its_way_is_refused() -> None:
    content = json.loads(snapshot().to_json())
    content["weights"][0][0] = 0.5
    with pytest.raises(BadSnapshot, match="version 1: its checksum"):
        Snapshot.from_json(json.dumps(content))
    for text in ("", "[]", "{}", json.dumps({"version": 1, "checksum": "x"})):
        with pytest.raises(BadSnapshot):
            Snapshot.from_json(text)


def test_what_a_front_end_sends_is_explained_by_what_its_ways_cost() -> None:
    cheapest, second, dearest = snapshot().explain("B/default")
    assert cheapest.split(":")[0] in ("B", "C")
    assert {cheapest.split(" ")[1], second.split(" ")[1]} == {"74.65", "25.35"}
    assert dearest.startswith("A: 0.00 %")
    full, *_, shed = dead_b().explain("B/default")
    assert "(full)" in full
    assert shed.startswith("shed: ")
    assert any("B: not eligible" in line for line in dead_b().explain("A/default"))
    with pytest.raises(KeyError, match="B/default"):
        snapshot().explain("D/default")


def test_a_difference_is_in_words() -> None:
    assert diff(snapshot(), snapshot(2)) == []
    lines = diff(snapshot(), dead_b())
    assert "B/default to B: 74.65 % -> 0.00 %" in lines
    assert "B: capacity 95 -> 0/s" in lines
    assert "shed: 0 -> 79/s" in lines
    assert lines[-1].startswith("expected latency: 110.06 -> ")
    more = snapshot(
        2,
        engines=(*FLEET.engines, Engine("D", MM1(50.0))),
        network_s=np.column_stack([FLEET.network_s, [0.05, 0.05, 0.05]]),
    )
    assert any(line.startswith("D: new, 47.5/s") for line in diff(snapshot(), more))
    assert "D: gone" in diff(more, snapshot(3))


def test_three_states_of_age() -> None:
    assert [freshness(age, 10.0, 180.0) for age in (0.0, 10.0, 11.0, 180.0, 181.0)] == [
        "fresh", "fresh", "stale", "stale", "expired"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weights": np.array([[1.0, 0, 0], [0, 2.0, -1.0], [0, 0, 1.0]])}, "B/default to B"),
        ({"weights": np.array([[1.0, 0, 0], [0, 0.5, 0.3], [0, 0, 1.0]])}, "B/default: expected shares"),
        ({"weights": np.ones((2, 3))}, "weights: expected shape"),
        ({"rates": np.array([1.0, -1.0, 1.0])}, "rates: B/default"),
        ({"loads": np.array([1e6, 1.0, 1.0])}, "loads: A"),
        ({"in_flight": np.array([1.0])}, "in_flight: expected shape"),
    ],
)
def test_a_table_that_cannot_be_routed_by_is_refused_with_its_entry(changes: dict, said: str) -> None:
    wrong = replace(snapshot(), **changes)
    with pytest.raises(BadSnapshot, match=said):
        Snapshot.from_json(wrong.to_json())
