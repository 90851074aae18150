"""A fleet on real Serve: two front ends, three emulated engines, a control plane that is killed."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from collections.abc import Iterator

import numpy as np
import pytest

from load_tests.serve_app import applications, replica_pids
from tests.support.running_fleet import BODY, Fleet, running_fleet, shares

LONG = {"text_input": "two words", "parameters": {"max_tokens": 1000}}


@pytest.fixture(scope="module")
def fleet(server) -> Iterator[Fleet]:
    with running_fleet(server) as running:
        yield running


def control_plane(fleet: Fleet) -> list[int]:
    return replica_pids(applications(fleet.server.cluster), "FleetControl")


def end_control_plane(fleet: Fleet) -> int:
    (pid,) = control_plane(fleet)
    os.kill(pid, signal.SIGKILL)
    return pid


def test_requests_stay_at_home_while_there_is_room(fleet: Fleet) -> None:
    seen = fleet.load(4.0)
    assert {one.status for one in seen} == {200}
    assert shares(seen).get("east", 0) > 0.3
    assert shares(seen).get("west", 0) > 0.3


def test_streams_come_token_by_token(fleet: Fleet) -> None:
    status, headers, body = fleet.server.request("/east/v2/models/llm/generate_stream", BODY)
    events = [json.loads(line[6:]) for line in body.decode().split("\n\n") if line]
    assert status == 200
    assert headers["x-parm-engine"] in ("east", "west", "south")
    assert [event["text_output"] for event in events] == ["token0", "token1", "token2"]
    assert all(event["emulated"] for event in events)


def test_bad_requests_are_refused_and_are_not_an_engines_fault(fleet: Fleet) -> None:
    path = "/east/v2/models/llm/generate"
    status, headers, body = fleet.server.request(path, {"text_input": 7})
    assert (status, headers["x-parm-attempts"]) == (400, "1")
    assert b"text_input" in body
    status, _, body = fleet.server.request(
        f"{path}_stream", {"text_input": "a", "parameters": {"max_tokens": 0}}
    )
    assert status == 400
    assert b"max_tokens" in body
    for kind in ("generate", "generate_stream"):
        status, _, body = fleet.server.request(f"/east/v2/models/llm/{kind}", b"[" * 100_000)
        assert (status, b"body: expected a JSON object" in body) == (400, True)
    status, _, body = fleet.server.request(path, BODY, {"x-parm-demand": "odd"})
    assert status == 400
    assert b"x-parm-demand" in body


def test_a_session_stays_at_its_engine(fleet: Fleet) -> None:
    assert len({fleet.ask("east", **{"x-parm-session": "user-1"}).engine for _ in range(10)}) == 1


def test_a_model_with_a_code_is_an_engine_and_a_front_end_needs_no_control_plane(fleet: Fleet) -> None:
    images, labels = fleet.server.images[:40], fleet.server.labels[:40]
    right = 0
    for image, label in zip(images, labels, strict=True):
        status, headers, body = fleet.server.request(
            "/solo/v2/models/digits/infer", fleet.server.document(image[None])
        )
        assert (status, headers["x-parm-engine"]) == (200, "digits")
        answer = json.loads(body)
        assert answer["model_name"] == "digits"
        right += int(np.argmax(answer["outputs"][0]["data"])) == label
    assert right >= 34
    status, headers, body = fleet.server.request("/solo/v2/models/odd/infer", {"inputs": []})
    assert (status, headers["x-parm-attempts"]) == (404, "1")
    assert b"digits" in body


def test_without_its_control_plane_no_request_fails(fleet: Fleet) -> None:
    before = fleet.get("/east/v2/routing")["version"]
    end_control_plane(fleet)
    seen = fleet.load(6.0)
    assert {one.status for one in seen} == {200}
    # Serve starts another one, whose plans are newer.
    fleet.until(lambda: fleet.get("/east/v2/routing")["version"] > before + 100, 90)


def test_a_slow_engine_loses_its_share_and_returns_in_steps(fleet: Fleet) -> None:
    def penalty() -> float:
        return fleet.get("/control/snapshot")["penalties"].get("east", [1.0])[0]

    before = shares(fleet.load(4.0))["east"]
    fleet.disturb("east", slow=10.0)
    fleet.load(5.0)
    seen = fleet.load(4.0)
    assert {one.status for one in seen} == {200}
    assert shares(seen).get("east", 0.0) <= 0.1 * before
    status, _, body = fleet.server.request("/control/explain?demand=east/default")
    assert status == 200
    assert b"east: penalised to" in body
    fleet.disturb("east")
    steps = set()
    end = time.monotonic() + 90
    while (left := penalty()) < 1:
        steps.add(round(left, 3))
        fleet.load(1.0)
        assert time.monotonic() < end
    assert len(steps) >= 3
    fleet.load(2.0)
    assert shares(fleet.load(4.0))["east"] > 0.6 * before


def test_a_penalty_outlives_the_control_plane_that_gave_it(fleet: Fleet) -> None:
    def weight() -> float:
        return fleet.get("/east/v2/routing")["weights"]["default"]["east"]

    def versions() -> list[int]:
        return fleet.get("/control/versions")["versions"]

    usual = weight()
    fleet.disturb("east", slow=10.0)
    fleet.load(6.0)
    told = fleet.get("/control/snapshot")
    assert told["penalties"]["east"][0] <= 0.1
    assert weight() < 0.1 * usual
    ended = end_control_plane(fleet)
    heaviest = 0.0
    end = time.monotonic() + 90
    while control_plane(fleet) in ([], [ended]) or versions()[-1:] <= [told["version"]]:
        assert {one.status for one in fleet.load(1.0)} == {200}
        heaviest = max(heaviest, weight())
        assert time.monotonic() < end
    # What it goes on from, and what it makes of that: no plan was without the penalty.
    time.sleep(2.0)
    kept = versions()
    assert kept[0] >= told["version"]
    assert kept == sorted(set(kept))
    assert len(kept) >= 3
    for version in kept:
        snapshot = fleet.get(f"/control/snapshot?version={version}")
        assert snapshot["penalties"]["east"][0] <= 0.1, version
    assert max(heaviest, weight()) < 0.1 * usual
    fleet.disturb("east")
    end = time.monotonic() + 90
    while fleet.get("/control/snapshot")["penalties"]:
        fleet.load(1.0)
        assert time.monotonic() < end


def test_a_storm_is_bounded_and_refusals_are_told(fleet: Fleet) -> None:
    before = {name: fleet.get(f"/{name}/v2/routing")["retries"] for name in ("east", "west")}
    for engine in ("east", "west", "south"):
        fleet.disturb(engine, failing=True)
    seen = fleet.load(4.0)
    for engine in ("east", "west", "south"):
        fleet.disturb(engine)
    assert {one.status for one in seen} == {500}
    for name, was in before.items():
        now = fleet.get(f"/{name}/v2/routing")["retries"]
        assert now["granted"] - was["granted"] <= 0.2 * (now["offered"] - was["offered"]) + 40
        assert now["in_backoff"] == 0


def test_who_gives_up_frees_the_engines_slot(fleet: Fleet) -> None:
    """A token takes 10 s now: a slot that is free before that was given up."""

    def busy() -> int:
        states = [fleet.get(f"/engine-{engine}/state") for engine in ("east", "west", "south")]
        return sum(state["active"] + state["queued"] for state in states)

    fleet.until(lambda: busy() == 0)
    for engine in ("east", "west", "south"):
        fleet.disturb(engine, slow=1000.0)
    path = "/east/v2/models/llm/generate"
    # By value, and one that goes through the object store.
    for body in (BODY, {**BODY, "text_input": "a" * 4_000_000}):
        for kind in ("", "_stream"):
            # The front end, after its timeout; a client, before that.
            assert fleet.server.request(path + kind, body, timeout=20)[0] == 502
            fleet.until(lambda: busy() == 0, 2)
            with pytest.raises(TimeoutError):
                fleet.server.request(path + kind, body, timeout=0.5)
            fleet.until(lambda: busy() == 0, 2)
    # And in the middle of an answer.
    fleet.disturb("east", slow=20.0)
    request = urllib.request.Request(
        f"{fleet.server.url}{path}_stream", json.dumps(LONG).encode(), {"x-parm-session": "one"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.readline().startswith(b"data: ")
        assert busy() == 1
    fleet.until(lambda: busy() == 0, 5)
    for engine in ("east", "west", "south"):
        fleet.disturb(engine)
    fleet.until(lambda: fleet.ask("east").status == 200)


def test_an_engine_that_is_gone_gets_nothing(fleet: Fleet) -> None:
    fleet.tell(delete="engine-west")
    for front_end in ("east", "west"):
        fleet.until(lambda f=front_end: not fleet.get(f"/{f}/v2/routing")["weights"]["default"]["west"], 5)
    seen = fleet.load(4.0)
    assert {one.status for one in seen} == {200}
    assert "west" not in shares(seen)
    fleet.until(lambda: fleet.get("/control/snapshot")["capacities"][1] == 0.0)
