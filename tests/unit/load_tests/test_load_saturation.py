from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from contract_server import MODEL, SHAPE, ContractServer, infer_response

from load_tests import saturation
from load_tests.phase import LabelledImages, run_phase
from load_tests.records import ClientRecord
from load_tests.saturation import NotDrained, answer, drain, tail_s
from load_tests.saturation_search import Probe, Saturation, search
from load_tests.server_stats import ServedModel
from parm_ray.core import Outcome
from parm_ray.stats import percentile
from parm_ray.workload import poisson

# An M/M/1 queue: the 99th percentile of the time in the system is ln(100) / (mu - rate).
MU, LIMIT_S = 40.0, 0.5
TRUTH = MU - math.log(100) / LIMIT_S


def analytic(rate: float) -> Probe:
    p99 = math.log(100) / (MU - rate) if rate < MU else math.inf
    return Probe(rate, p99 <= LIMIT_S, p99)


def simulated(rng: np.random.Generator, queries: int = 500) -> Callable[[float], Probe]:
    """What a real probe sees: the nearest-rank p99 of so many queries of the same queue, from empty."""

    def probe(rate: float) -> Probe:
        arrivals, service = poisson(rate, rng, n=queries), rng.exponential(1 / MU, queries)
        free, latencies = 0.0, np.empty(queries)
        for i in range(queries):
            free = max(free, arrivals[i]) + service[i]
            latencies[i] = free - arrivals[i]
        p99 = percentile(latencies, 0.99)
        return Probe(rate, p99 <= LIMIT_S, p99)

    return probe


@pytest.mark.parametrize(("low", "high"), [(5, 200), (1, 31), (30, 31), (29.9, 1e6)])
@pytest.mark.parametrize("resolution", [0.2, 0.01])
def test_the_two_rates_enclose_the_truth_as_closely_as_asked(
    low: float, high: float, resolution: float
) -> None:
    found = search(analytic, low=low, high=high, resolution=resolution)
    assert found.held is not None
    assert found.failed is not None
    assert found.held <= TRUTH < found.failed <= found.held * (1 + resolution)
    assert all(low <= probe.rate <= high for probe in found.probes)


def test_a_system_is_not_driven_beyond_twice_what_it_can_do() -> None:
    found = search(analytic, low=5, high=1e6)
    assert max(probe.rate for probe in found.probes) <= 2 * TRUTH
    # Four doublings, then bisection from a factor of 2 down to 1.05.
    assert len(found.probes) <= 4 + math.ceil(math.log2(math.log(2) / math.log(1.05)))


def test_what_lies_outside_the_range_is_said() -> None:
    assert search(analytic, low=35, high=200).held is None
    assert search(analytic, low=35, high=200).failed == 35
    assert len(search(analytic, low=35, high=200).probes) == 1
    found = search(analytic, low=5, high=25)
    assert (found.held, found.failed) == (25, None)
    assert [probe.rate for probe in found.probes] == [5, 10, 20, 25]


@pytest.mark.parametrize("votes", [1, 3])
def test_noisy_probes_still_give_a_bracket_and_in_the_middle_the_truth(votes: int) -> None:
    found = [
        search(simulated(np.random.default_rng(seed)), low=5, high=200, votes=votes) for seed in range(15)
    ]
    for one in found:
        assert one.held is not None
        assert one.failed is not None
        assert one.held < one.failed <= one.held * 1.05
        for rate in (one.held, one.failed):
            tally = [probe.held for probe in one.probes if probe.rate == rate]
            assert (sum(tally) > len(tally) / 2) == (rate == one.held)
    held = np.array([one.held for one in found])
    # At 40/s, 500 queries last a dozen relaxation times of the queue: wide, and a little too good.
    assert np.median(held) == pytest.approx(TRUTH, rel=0.1)


def test_more_votes_repeat_better() -> None:
    def spread(votes: int) -> float:
        found = [
            search(simulated(np.random.default_rng(s), 200), low=5, high=200, votes=votes) for s in range(30)
        ]
        return float(np.std([one.held or 0.0 for one in found]))

    assert spread(7) < spread(1)


def test_a_rate_is_tried_until_a_majority_agrees() -> None:
    outcomes = iter([True, False, True, False, False])
    found = search(lambda rate: Probe(rate, next(outcomes)), low=1, high=2, resolution=1, votes=3)
    assert [probe.rate for probe in found.probes] == [1, 1, 1, 2, 2]
    assert (found.held, found.failed) == (1, 2)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"low": 0, "high": 1}, "low, high"),
        ({"low": 2, "high": 2}, "low, high"),
        ({"low": math.nan, "high": 2}, "low, high"),
        ({"low": 1, "high": math.inf}, "low, high"),
        ({"low": 1, "high": 2, "resolution": 0}, "resolution"),
        ({"low": 1, "high": 2, "votes": 2}, "votes: expected an odd number >= 1, got 2"),
    ],
)
def test_refuses_bad_ranges(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        search(analytic, **options)


def test_the_answer_is_one_sentence() -> None:
    assert (
        answer(Saturation(30.1, 31.5, ()), 0.15) == "p99 within 150 ms: held at 30.10 queries/s, not at 31.50"
    )
    assert "not even at 5.00" in answer(Saturation(None, 5.0, ()), 0.15)
    assert "still at 200.00" in answer(Saturation(200.0, None, ()), 0.15)


def test_the_failed_and_the_unsent_are_infinitely_late() -> None:
    good = [ClientRecord(i, 0.0, 0.0, 0.1, 200, Outcome.ORIGINAL) for i in range(99)]
    failed = ClientRecord(99, 0.0, 0.0, 0.1, 0, Outcome.FAILED)
    assert tail_s([*good, failed]) == tail_s(good, unsent=1) == 0.1
    assert tail_s([*good, failed], unsent=1) == math.inf


class Pages:
    """A model whose stats pages are given."""

    def __init__(self, *pages: dict[str, Any]) -> None:
        self.pages = list(pages)

    def stats(self) -> dict[str, Any]:
        return self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]


async def test_a_probe_begins_when_nothing_is_open() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    pages: Any = Pages(
        {"queries_open": 3}, {"queries_open": 0, "calls_outstanding": 1}, {"calls_outstanding": 0}
    )
    assert await drain(pages, 10, sleep) == {"calls_outstanding": 0}
    assert len(slept) == 2
    stuck: Any = Pages({"queries_open": 2})
    with pytest.raises(NotDrained, match="'queries_open': 2"):
        await drain(stuck, 0.0, sleep)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    path = tmp_path / "queries.npz"
    pixels = np.zeros((10, *SHAPE), np.uint8)
    pixels[:, 0, 0, 0] = np.arange(10)
    np.savez(path, images=pixels, labels=np.arange(10))
    return path


class StopAfter:
    """A watch that finds the rest hopeless when it has been asked so many times."""

    def __init__(self, asked: int) -> None:
        self.left = asked

    def ended(self, i: int, shot: object) -> None:
        pass

    def hopeless(self, now: float) -> bool:
        self.left -= 1
        return self.left < 0


async def test_a_phase_that_stops_early_says_what_it_did_not_send(
    server: ContractServer, images: Path
) -> None:
    model = await asyncio.to_thread(ServedModel.find, server.base_url, MODEL)
    drawn = LabelledImages.load(images).shuffled(8, np.random.default_rng(0))
    phase = await run_phase(model, [0.0] * 8, drawn, timeout_s=10, warm_up=2, watch=StopAfter(3))
    assert (len(phase.records), phase.unsent) == (3, 5)
    assert all(record.correct for record in phase.records)
    whole = await run_phase(model, [0.0] * 8, drawn, timeout_s=10, warm_up=2)
    assert (len(whole.records), whole.unsent) == (8, 0)


async def command(server: ContractServer, images: Path, *more: str) -> int:
    # Rates beyond anything real and limits that no machine is too slow for.
    words = ["--url", server.base_url, "--model", MODEL, "--images", str(images), "--p99-ms", "30000"]
    words += ["--low", "10000", "--high", "40000", "--resolution", "1", "--queries", "20", "--warm-up", "4"]
    return await asyncio.to_thread(saturation.main, [*words, "--lag-limit-ms", "30000", *more])


def fail_from(server: ContractServer, request_number: int) -> None:
    """From the so-many-th request on every one that is not for warming up fails."""
    warming = {24 * probe + i for probe in range(100) for i in range(1, 5)}

    async def infer(request: web.Request) -> web.StreamResponse:
        if server.requests >= request_number and server.requests not in warming:
            return web.json_response({"error": "queue full"}, status=503)
        return infer_response(np.eye(10)[[3]])

    server.override = infer


async def test_the_command_finds_both_rates(
    server: ContractServer, images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_from(server, 25)
    assert await command(server, images, "--json") == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert (document["held_per_s"], document["failed_per_s"]) == (10_000, 20_000)
    first, second = document["probes"]
    assert (first["held"], first["sent"], first["planned"]) == (True, 20, 20)
    assert first["p99_s"] > 0
    assert (second["held"], second["p99_s"]) == (False, None)
    assert second["sent"] <= 20
    assert document["settings"]["queries"] == 20
    assert said.err.count("queries/s: p99") == 2


async def test_the_command_prints_probes_and_answer(
    server: ContractServer, images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await command(server, images) == 0
    printed = capsys.readouterr().out
    assert "still at 40000.00 queries/s" in printed
    assert printed.count("held") == 3
    fail_from(server, 0)
    server.requests = 0
    assert await command(server, images) == 1
    printed = capsys.readouterr().out
    assert "not even at 10000.00 queries/s" in printed
    assert "> 30000" in printed


async def test_the_command_refuses_to_measure_its_own_generator(
    server: ContractServer, images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await command(server, images, "--lag-limit-ms", "0") == 2
    said = capsys.readouterr()
    assert "GeneratorLagged: at 10000.00 queries/s the generator was late" in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--p99-ms", "0"], "--p99-ms: expected milliseconds > 0, got 0"),
        (["--queries", "0"], "--queries: expected a whole number >= 1"),
        (["--votes", "2"], "votes"),
        (["--high", "1"], "low, high"),
        (["--model", "other"], "404"),
    ],
)
async def test_the_command_says_why_it_could_not(
    server: ContractServer, images: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert await command(server, images, *words) == 2
    assert message in capsys.readouterr().err
