from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

from parm_ray.workload.scripts import (
    CallsAndEpisodes,
    CallScript,
    HeavyTailedCalls,
    IndependentCalls,
    SlowEpisodes,
    SlownessScript,
)

SERVERS = ["replica-0", "replica-1", "b"]


def independent(seed: int = 3) -> IndependentCalls:
    return IndependentCalls(seed, share=0.05, factor=10)


def heavy(seed: int = 3) -> HeavyTailedCalls:
    return HeavyTailedCalls(seed, share=0.5, shape=1.5, at_most=50)


def episodes(seed: int = 3, **more: Any) -> SlowEpisodes:
    return SlowEpisodes(seed, factor=4, mean_s=2.0, mean_between_s=8.0, **more)


def lognormal(seed: int = 3) -> SlowEpisodes:
    return episodes(seed, lasting="lognormal", sigma=0.7)


def both(seed: int = 3) -> CallsAndEpisodes:
    return CallsAndEpisodes(independent(seed), episodes(seed))


SCRIPTS = [independent, heavy, episodes, lognormal, both]


@pytest.mark.parametrize("make", SCRIPTS)
def test_the_answer_does_not_depend_on_who_asked_before(make: Callable[[], SlownessScript]) -> None:
    asked = [(s, call, call * 0.37) for s in SERVERS for call in range(0, 3000, 7)]
    one, other = make(), make()
    in_order = {question: one.factor(*question) for question in asked}
    shuffled = [asked[i] for i in np.random.default_rng(0).permutation(len(asked))]
    other.factor("somebody else", 5000, 5000.0)
    assert {question: other.factor(*question) for question in shuffled} == in_order
    assert len(set(in_order.values())) > 1


@pytest.mark.parametrize("make", SCRIPTS)
def test_servers_and_seeds_have_scripts_of_their_own(make: Callable[..., SlownessScript]) -> None:
    def read(script: SlownessScript, server: str) -> list[float]:
        return [script.factor(server, call, call * 0.5) for call in range(500)]

    sequences = [read(make(seed), server) for seed in (3, 4) for server in SERVERS]
    assert len({tuple(sequence) for sequence in sequences}) == 6


def test_another_process_reads_the_same_script() -> None:
    code = (
        "from parm_ray.workload.scripts import IndependentCalls as I, SlowEpisodes as E;"
        "print(I(7, 0.02, 10).factors('replica-0', 0, 2000).argsort(stable=True)[-1],"
        "E(7, 4, 2.0, 8.0).episodes('replica-0', 30).tolist())"
    )
    done = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    here = IndependentCalls(7, 0.02, 10).factors("replica-0", 0, 2000).argsort(stable=True)[-1]
    assert done == {f"{here} {SlowEpisodes(7, 4, 2.0, 8.0).episodes('replica-0', 30).tolist()}\n"}


@pytest.mark.parametrize("make", [independent, heavy])
def test_many_at_once_are_the_single_ones(make: Callable[[], CallScript]) -> None:
    script, n = make(), 2500
    singly = [script.factor("a", call) for call in range(n)]
    assert script.factors("a", 0, n).tolist() == singly
    for first in (0, 1, 1023, 1024, 1500):
        assert script.factors("a", first, 1000).tolist() == singly[first : first + 1000]
    assert script.factors("a", 5, 0).tolist() == []


def share_error(share: float, n: int) -> float:
    """Four standard errors of a share measured on n independent calls."""
    return 4 * math.sqrt(share * (1 - share) / n)


def test_independent_calls_have_the_share_and_no_memory() -> None:
    n = 100_000
    slow = independent().factors("a", 0, n) == 10
    assert slow.mean() == pytest.approx(0.05, abs=share_error(0.05, n))
    after_slow = slow[1:][slow[:-1]]
    assert after_slow.mean() == pytest.approx(0.05, abs=share_error(0.05, len(after_slow)))
    assert independent().mean_factor == pytest.approx(1.45)


def test_a_larger_share_makes_more_of_the_same_calls_slow() -> None:
    few = IndependentCalls(1, 0.02, 10).factors("a", 0, 5000) > 1
    more = IndependentCalls(1, 0.10, 10).factors("a", 0, 5000) > 1
    assert (few <= more).all()
    assert few.sum() < more.sum()


def test_shares_of_none_and_all() -> None:
    assert set(IndependentCalls(1, 0, 10).factors("a", 0, 3000).tolist()) == {1.0}
    assert set(IndependentCalls(1, 1, 10).factors("a", 0, 3000).tolist()) == {10.0}


def test_heavy_tails_are_pareto_up_to_the_bound() -> None:
    n = 100_000
    drawn = HeavyTailedCalls(5, share=1, shape=1.5, at_most=100).factors("a", 0, n)
    assert drawn.min() >= 1
    assert drawn.max() == pytest.approx(100)
    for x in (1.5, 4.0, 20.0, 99.9):
        expected = x**-1.5
        assert (drawn > x).mean() == pytest.approx(expected, abs=share_error(expected, n))
    assert (drawn > 99.9).mean() > 0


@pytest.mark.parametrize(("share", "shape"), [(1.0, 1.5), (0.3, 1.0), (0.5, 0.7), (1.0, 0.05), (0.2, 8.0)])
def test_the_mean_of_heavy_tails_is_the_closed_form(share: float, shape: float) -> None:
    n = 100_000
    script = HeavyTailedCalls(2, share, shape, at_most=200)
    drawn = script.factors("a", 0, n)
    assert drawn.mean() == pytest.approx(script.mean_factor, abs=4 * drawn.std() / math.sqrt(n))
    assert (drawn > 1).mean() == pytest.approx(share, abs=share_error(share, n) + 1e-9)


@pytest.mark.parametrize("make", [episodes, lognormal])
def test_a_factor_is_read_off_the_episodes(make: Callable[[], SlowEpisodes]) -> None:
    script = make()
    spans = script.episodes("a", 5_000.0)
    assert (spans[:, 0] < spans[:, 1]).all()
    assert (spans[1:, 0] > spans[:-1, 1]).all()
    assert spans[:, 0].max() < 5_000
    times = np.random.default_rng(0).uniform(0, 5_000, 2_000)
    inside = ((times[:, None] >= spans[:, 0]) & (times[:, None] < spans[:, 1])).any(axis=1)
    assert script.factors_at("a", times).tolist() == np.where(inside, 4.0, 1.0).tolist()
    assert [script.factor_at("a", t) for t in times] == script.factors_at("a", times).tolist()
    begin, end = spans[3]
    assert script.factor_at("a", begin) == 4.0
    assert script.factor_at("a", end) == 1.0
    assert script.factor_at("a", math.nextafter(end, 0)) == 4.0


@pytest.mark.parametrize("make", [episodes, lognormal])
def test_lengths_and_gaps_have_their_distributions(make: Callable[[], SlowEpisodes]) -> None:
    script = make()
    # Whole episodes only: the first may have begun before time 0.
    spans = script.episodes("a", 50_000.0)[1:]
    lengths, gaps = spans[:, 1] - spans[:, 0], spans[1:, 0] - spans[:-1, 1]
    truth = {
        "exponential": scipy.stats.expon(scale=2.0),
        "lognormal": scipy.stats.lognorm(0.7, scale=2.0 * math.exp(-0.245)),
    }[script.lasting]
    assert len(spans) > 4_000
    assert scipy.stats.kstest(lengths, truth.cdf).pvalue > 1e-3
    assert scipy.stats.kstest(gaps, scipy.stats.expon(scale=8.0).cdf).pvalue > 1e-3


@pytest.mark.parametrize("make", [episodes, lognormal])
@pytest.mark.parametrize("t", [0.0, 1.0, 30.0])
def test_the_share_of_slow_servers_is_the_same_from_time_zero_on(
    make: Callable[[], SlowEpisodes], t: float
) -> None:
    script, n = make(), 4_000
    slow = np.mean([script.factor_at(f"server {i}", t) > 1 for i in range(n)])
    assert script.slow_share == pytest.approx(0.2)
    assert slow == pytest.approx(0.2, abs=share_error(0.2, n))


def test_factors_of_both_are_multiplied() -> None:
    script, calls, slow = both(), independent(), episodes()
    expected = [calls.factor("a", i) * slow.factor_at("a", i * 0.5) for i in range(3000)]
    assert [script.factor("a", i, i * 0.5) for i in range(3000)] == expected
    assert set(expected) == {1.0, 4.0, 10.0, 40.0}
    assert script.mean_factor == pytest.approx(1.45 * 1.6)


def test_a_generator_is_made_per_block_and_not_per_call(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    real = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda seed: made.append(seed) or real(seed))
    script = both()
    for call in range(4096):
        script.factor("a", call, call * 0.01)
    assert len(made) == 4 + 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: IndependentCalls(-1, 0, 1), "seed: expected a whole number >= 0, got -1"),
        (lambda: IndependentCalls(0, 1.5, 1), "share: expected a number >= 0 and <= 1, got 1.5"),
        (lambda: IndependentCalls(0, 0, 0.5), "factor: expected a number >= 1, got 0.5"),
        (lambda: HeavyTailedCalls(0, 1, 0), "shape: expected a number >= 0.05"),
        (lambda: HeavyTailedCalls(0, 1, 1, at_most=math.inf), "at_most: expected .* <= 1e"),
        (lambda: SlowEpisodes(0, 0.5, 1, 1), "factor"),
        (lambda: SlowEpisodes(0, 2, 0, 1), "mean_s: expected seconds > 0, got 0"),
        (lambda: SlowEpisodes(0, 2, 1, math.inf), "mean_between_s"),
        (lambda: episodes(lasting="gamma"), "lasting: expected exponential or lognormal, got 'gamma'"),
        (lambda: episodes(sigma=6), "sigma: expected a number >= 0 and <= 5, got 6"),
        (lambda: independent().factor("a", -1), "call: expected a number >= 0"),
        (lambda: independent().factors("a", -1, 2), "first"),
        (lambda: episodes().factor_at("a", -0.1), "t: expected seconds >= 0, got -0.1"),
        (lambda: episodes().factor_at("a", math.inf), "t: expected"),
        (lambda: episodes().factors_at("a", [1.0, math.nan]), r"times\[1\]"),
        (lambda: episodes().episodes("a", -1), "until_s"),
    ],
)
def test_refuses_what_is_out_of_range(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
