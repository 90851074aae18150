from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from load_tests.faults import FaultEvent
from load_tests.page import Report, render
from load_tests.page.group_chart import choose, group_chart, timeline
from load_tests.phase import Phase
from load_tests.records import ClientRecord
from load_tests.results import fault_rows, plan_row
from parm_ray.core import Outcome
from parm_ray.page.svg import Linear, Log

TITLES = {"none": "No redundancy", "concat_slot": "Coded <concat> & slot"}


def records(seed: int, n: int = 200, failed: int = 0) -> list[ClientRecord]:
    rng = np.random.default_rng(seed)
    made = []
    for i in range(n):
        latency = 0.025 + rng.exponential(0.01) + 0.2 * (rng.random() < 0.02)
        outcome = Outcome.FAILED if i < failed else Outcome.RECONSTRUCTED if i % 9 == 8 else Outcome.ORIGINAL
        made.append(ClientRecord(i, i / 50, i / 50, i / 50 + latency, 200, outcome, predicted=1, label=1))
    return made


def event(t: float, kind: str, index: int, **more: str) -> dict:
    return {"t": 1000.0 + t, "kind": kind, "index": index, **more}


LATE_SLOT_0 = {
    "group": 7,
    "events": [
        event(0.000, "dispatched", 0),
        event(0.010, "dispatched", 1),
        event(0.011, "encoded", 0),
        event(0.011, "parity_dispatched", 0),
        event(0.036, "answered", 1),
        event(0.036, "resolved", 1, outcome="original"),
        event(0.040, "parity_answered", 0),
        event(0.041, "reconstructed", 0),
        event(0.041, "resolved", 0, outcome="reconstructed"),
        event(5.000, "answered", 0),
        event(5.000, "something new", 0),
    ],
}
DEAD_SLOT_1 = {
    "group": 8,
    "events": [
        event(0.0, "dispatched", 0),
        event(0.0, "dispatched", 1),
        event(0.0, "parity_dispatched", 0),
        event(0.1, "failed", 1),
        event(0.2, "parity_answered", 0),
        event(0.2, "resolved", 1, outcome="reconstructed"),
    ],
}
PLAIN = {"group": 9, "events": [event(0.0, "dispatched", 0), event(0.03, "resolved", 0, outcome="original")]}


def report(failed: int = 0) -> Report:
    pages = [
        {"pools": {"deployed": {"replicas": 4, "slots": 1, "busy_s": b}}, "time_s": t}
        for b, t in [(0, 0), (5, 4)]
    ]
    runs = {plan: records(i, failed=failed) for i, plan in enumerate(TITLES)}
    rows = [
        {
            "title": TITLES[plan],
            "replicas": "4 + 2",
            **plan_row(plan, 4, 6, Phase(run, pages[0], pages[1], 0.5, [])),
        }
        for plan, run in runs.items()
    ]
    events = [FaultEvent(1.0, "stall", 1), FaultEvent(2.0, "resume", 1), FaultEvent(3.0, "kill", 2)]
    faulted = records(5, failed=failed)
    return Report(
        rate=48.0,
        plans=rows,
        runs=runs,
        accuracy=[{"encoder": "concat", "decoder": "slot", "k": 2, "a_a": 0.98, "a_d": 0.95}],
        faults=[{"title": row["fault"], **row} for row in fault_rows(faulted, events)],
        fault_records=faulted,
        fault_events=events,
        groups={"Coded": choose([LATE_SLOT_0, DEAD_SLOT_1, PLAIN], 4)},
        warnings=["The generator <lagged>."],
        setting=[("Machine", "2 cores")],
    )


@pytest.mark.parametrize("failed", [0, 3, 200])
def test_the_page_is_one_self_contained_file_of_well_formed_drawings(failed: int) -> None:
    page = render(report(failed))
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) >= 3
    for svg in drawings:
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert "nan" not in svg
        assert "inf" not in svg
    assert set(re.findall(r'https?://[^"]*', page)) <= {"http://www.w3.org/2000/svg"}
    assert "<script" not in page
    assert "src=" not in page
    assert "Coded &lt;concat&gt; &amp; slot" in page
    assert "The generator &lt;lagged&gt;." in page
    assert ("never" in page) == (failed > 0)


def test_an_empty_report_is_still_a_page() -> None:
    page = render(Report(rate=1.0, plans=[], runs={}))
    assert page.startswith("<!doctype html>")
    assert "Read this first" not in page


def test_a_timeline_is_in_ms_from_the_first_dispatch() -> None:
    line = timeline(LATE_SLOT_0)
    assert line is not None
    assert line.slots[1].begin == pytest.approx(10)
    assert line.slots[0].end == pytest.approx(5000)
    assert line.parities[0].end == pytest.approx(40)
    assert line.reconstructed == (0,)
    assert line.worst_gain == pytest.approx(4959)
    assert "answers at 5000 ms" in group_chart(line)


def test_a_failed_call_is_marked_and_never_better_than_its_stand_in() -> None:
    line = timeline(DEAD_SLOT_1)
    assert line is not None
    assert line.slots[1].failed
    assert line.worst_gain <= 0
    assert "died" in group_chart(line)


def test_groups_of_different_kinds_come_first() -> None:
    slower = {"group": 10, "events": [{**e, "t": e["t"] * 1.0} for e in LATE_SLOT_0["events"]]}
    chosen = choose([LATE_SLOT_0, slower, DEAD_SLOT_1, PLAIN, {"group": 11, "events": []}], 2)
    assert {line.group for line in chosen} == {7, 8}
    assert len(choose([PLAIN], 2)) == 0


def test_scales() -> None:
    linear = Linear(0, 22, 100, 320, about=10)
    assert (linear(0), linear(22)) == (100, 320)
    assert linear.ticks() == [0, 5, 10, 15, 20]
    log = Log(20, 500, 0, 100)
    assert (log(20), log(500)) == (0, pytest.approx(100))
    assert log.ticks() == [20, 50, 100, 200, 500]
