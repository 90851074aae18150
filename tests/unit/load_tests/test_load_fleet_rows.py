"""Rows of a fleet's run: what is goodput, what is shed, what overload costs; and the closed loop."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from multidict import CIMultiDict

from load_tests.client import Reply, SendFailed, Shot
from load_tests.fleet_requests import Fleet
from load_tests.fleet_rows import overload_of, row_of, show


def shot(planned: float, done: float, status: int = 200, **headers: str) -> Shot[Reply]:
    said = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return Shot(planned, planned, done, Reply(status, said, b'{"error":"full"}'))


SHOTS = [
    ("default", shot(0.0, 0.1, x_parm_engine="east")),
    ("default", shot(9.0, 9.3, x_parm_engine="west")),
    # Queued when the phase ended: an answer, and no goodput of it.
    ("batch", shot(9.9, 10.5, x_parm_engine="west")),
    ("batch", shot(5.0, 5.0, 503, Retry_After="1", x_parm_spent_ms="0.2")),
    ("batch", shot(5.0, 5.0, 503)),
    ("default", Shot(1.0, 1.0, 2.0, SendFailed("gone"))),
]


def test_a_row_counts_what_came_in_time_and_what_was_refused_and_why() -> None:
    row = row_of("calm", 0.6, SHOTS, 10.0, {"granted": 1, "offered": 4})
    assert row["statuses"] == {"200": 3, "503": 2, "no response": 1}
    assert row["answered_per_s"] == pytest.approx(0.2)
    assert row["p50_ms"] == pytest.approx(300)
    assert row["shed"] == {"batch": pytest.approx(1 / 3), "default": 0}
    assert row["refusals"] == {'{"error":"full"}': 1}
    assert row["sent"] == 1.25
    assert row["engines"] == {"east": pytest.approx(1 / 3), "west": pytest.approx(2 / 3), "south": 0}
    assert row["engines_at_the_end"] == {"east": 0, "west": 1, "south": 0}


def test_overload_is_held_against_what_was_measured_and_the_phase_near_it() -> None:
    near, beyond = ({"answered_per_s": a, "p99_ms": b} for a, b in ((60.0, 500.0), (66.0, 800.0)))
    assert overload_of(near, beyond, 70.0) == {
        "goodput_of_measured": pytest.approx(66 / 70),
        "p99_of_near": pytest.approx(1.6),
    }
    assert overload_of({**near, "p99_ms": None}, beyond, 0.0) == {
        "goodput_of_measured": None,
        "p99_of_near": None,
    }


def test_a_run_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    row = row_of("calm", 0.6, SHOTS, 10.0, {"granted": 0, "offered": 4})
    capacity = {
        "nominal_per_s": 80.0,
        "measured_per_s": 71.5,
        "closed": [{"workers": 12, "answered_per_s": 71.5}],
    }
    show({"rows": [row], "capacity": capacity, "overload": overload_of(row, row, 71.5)})
    said = capsys.readouterr().out
    assert "measured 71.5/s (12 at a time 71.5)" in said
    assert "goodput 0.003 of measured, admitted p99 1.000 times" in said


class Served:
    """A fleet with so many slots of 10 ms each; every tenth request is refused, once all slots are taken."""

    def __init__(self, slots: int) -> None:
        self._slots, self.most, self._out = asyncio.Semaphore(slots), 0, 0

    async def send(self, front_end: str, demand: str) -> Reply:
        assert front_end in ("east", "west")
        assert demand in ("default", "batch")
        self._out += 1
        self.most = max(self.most, self._out)
        try:
            async with self._slots:
                await asyncio.sleep(0.01)
            return Reply(200, {}, b"")
        finally:
            self._out -= 1


async def test_a_closed_loop_keeps_as_many_out_as_it_is_told_and_counts_what_slots_do() -> None:
    fleet, served = Fleet(None, 0.5), Served(3)  # type: ignore[arg-type]
    fleet.send = served.send  # type: ignore[method-assign]
    found = await fleet.closed(12, 1.0, 0)
    assert served.most == 12
    # 300 a second, less what a busy machine takes.
    assert 150 < found.answered_per_s <= 303
    assert found.statuses == {"200": round(found.answered_per_s * 0.8)}
    assert found.p50_ms >= 39


async def test_a_closed_loop_without_an_answer_says_so() -> None:
    fleet = Fleet(None, 0.0)  # type: ignore[arg-type]

    async def refused(front_end: str, demand: str) -> Any:
        raise SendFailed("gone")

    fleet.send = refused  # type: ignore[method-assign]
    found = await fleet.closed(2, 0.5, 0)
    assert found.answered_per_s == 0
    assert set(found.statuses) == {"no response"}
    assert math.isnan(found.p50_ms)
