from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

from parm_ray.workload.service_time import (
    KINDS,
    Deterministic,
    Empirical,
    Exponential,
    Gamma,
    Hyperexponential,
    LogNormal,
    Pareto,
    ServiceTime,
    ShiftedExponential,
    SlowCalls,
    Weibull,
    from_mapping,
)

N = 40_000
# kind, arguments, the distribution as scipy has it (None: discrete, or not in scipy)
CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("deterministic", {"service_s": 0.05}, None),
    ("exponential", {"mean_s": 0.05}, scipy.stats.expon(scale=0.05)),
    ("shifted_exponential", {"shift_s": 0.03, "mean_s": 0.05}, scipy.stats.expon(loc=0.03, scale=0.02)),
    ("gamma", {"mean_s": 0.05, "shape": 0.5}, scipy.stats.gamma(0.5, scale=0.1)),
    (
        "weibull",
        {"mean_s": 0.05, "shape": 0.7},
        scipy.stats.weibull_min(0.7, scale=0.05 / math.gamma(1 + 1 / 0.7)),
    ),
    (
        "lognormal",
        {"mean_s": 0.05, "sigma": 0.8},
        scipy.stats.lognorm(0.8, scale=0.05 * math.exp(-0.32)),
    ),
    ("pareto", {"mean_s": 0.05, "shape": 9.0}, scipy.stats.pareto(9.0, scale=0.05 * 8 / 9)),
    ("hyperexponential", {"shares": [0.9, 0.1], "means_s": [0.02, 0.3]}, None),
    ("bimodal", {"service_s": 0.05, "slow_share": 0.02, "slow_factor": 10}, None),
    ("empirical", {"sample_s": [0.01, 0.02, 0.02, 0.5]}, None),
]
IDS = [kind for kind, _, _ in CASES]


def make(kind: str, arguments: dict[str, Any], seed: int = 0) -> ServiceTime:
    return from_mapping({"kind": kind, **arguments}, np.random.default_rng(seed))


def test_every_kind_has_a_case() -> None:
    assert set(IDS) == set(KINDS)


@pytest.mark.parametrize(("kind", "arguments", "_"), CASES, ids=IDS)
def test_moments_of_a_sample_are_the_closed_form(kind: str, arguments: dict[str, Any], _: Any) -> None:
    drawn = make(kind, arguments).draw_many(N)
    assert drawn.shape == (N,)
    assert (drawn >= 0).all()
    service = make(kind, arguments)
    for values, expected in ((drawn, service.mean_s), (drawn**2, service.second_moment_s2)):
        # Four standard errors of a mean of N; the tiny rest is rounding (a deterministic time has no spread).
        assert values.mean() == pytest.approx(expected, abs=4 * values.std() / math.sqrt(N), rel=1e-12)


@pytest.mark.parametrize(("kind", "arguments", "truth"), [c for c in CASES if c[2] is not None])
def test_moments_and_draws_are_scipys(kind: str, arguments: dict[str, Any], truth: Any) -> None:
    service = make(kind, arguments, seed=1)
    assert service.mean_s == pytest.approx(truth.mean())
    assert service.second_moment_s2 == pytest.approx(truth.moment(2))
    assert scipy.stats.kstest(service.draw_many(N), truth.cdf).pvalue > 1e-3


def test_moments_of_the_kinds_that_scipy_has_not() -> None:
    rng = np.random.default_rng(0)
    hyper = Hyperexponential([0.25, 0.75], [4.0, 0.0], rng)
    assert (hyper.mean_s, hyper.second_moment_s2) == (1.0, 8.0)
    slow = SlowCalls(2.0, 0.5, 3.0, rng)
    assert (slow.mean_s, slow.second_moment_s2) == (4.0, 20.0)
    sample = Empirical([1, 2, 6], rng)
    assert (sample.mean_s, sample.second_moment_s2) == (3.0, pytest.approx(41 / 3))
    assert set(sample.draw_many(200).tolist()) == {1.0, 2.0, 6.0}
    assert Deterministic(3, rng).second_moment_s2 == 9.0


def test_a_hyperexponential_of_one_branch_is_exponential() -> None:
    drawn = Hyperexponential([0, 1, 0], [9, 0.5, 9], np.random.default_rng(2)).draw_many(N)
    assert scipy.stats.kstest(drawn, scipy.stats.expon(scale=0.5).cdf).pvalue > 1e-3


@pytest.mark.parametrize(("kind", "arguments", "_"), CASES, ids=IDS)
def test_single_draws_are_the_numbers_of_many(kind: str, arguments: dict[str, Any], _: Any) -> None:
    many, single = make(kind, arguments), make(kind, arguments)
    assert [single.draw() for _ in range(100)] == many.draw_many(60).tolist() + many.draw_many(40).tolist()
    assert many.draw_many(0).shape == (0,)
    with pytest.raises(ValueError, match=r"n: expected a whole number >= 0, got -1"):
        many.draw_many(-1)


def test_heavy_tails_have_no_second_moment_and_no_mean_is_refused() -> None:
    rng = np.random.default_rng(0)
    assert Pareto(0.05, 2.0, rng).second_moment_s2 == math.inf
    assert Pareto(0.05, 2.01, rng).second_moment_s2 < math.inf
    assert Pareto(0.0, 1.5, rng).second_moment_s2 == 0
    assert Pareto(0.05, 1.25, rng).draw_many(1000).min() >= 0.01
    with pytest.raises(ValueError, match=r"shape: expected a number > 1, got 1"):
        Pareto(0.05, 1.0, rng)


@pytest.mark.parametrize(
    ("make_one", "field"),
    [
        (lambda rng: Deterministic(-1, rng), "service_s: expected seconds >= 0, got -1"),
        (lambda rng: Exponential(math.nan, rng), "mean_s"),
        (lambda rng: ShiftedExponential(-0.1, 1, rng), "shift_s"),
        (lambda rng: ShiftedExponential(0.2, 0.1, rng), "mean_s: expected seconds >= 0.2, got 0.1"),
        (lambda rng: Gamma(1, 0, rng), "shape: expected a number >= 0.05, got 0"),
        (lambda rng: Gamma(-1, 1, rng), "mean_s"),
        (lambda rng: Weibull(1, 0.01, rng), "shape"),
        (lambda rng: LogNormal(0, 1, rng), "mean_s: expected seconds > 0, got 0"),
        (lambda rng: LogNormal(1, 11, rng), "sigma: expected a number >= 0 and <= 10, got 11"),
        (lambda rng: Hyperexponential([0.5, 0.4], [1, 1], rng), "shares: expected a sum of 1, got 0.9"),
        (lambda rng: Hyperexponential([1.0], [1, 1], rng), "means_s: expected one for each of 1 shares"),
        (lambda rng: Hyperexponential([1.5, -0.5], [1, 1], rng), r"shares\[1\]"),
        (lambda rng: Empirical([], rng), "sample_s: expected a list of at least one number"),
        (lambda rng: Empirical([1, -1], rng), r"sample_s\[1\]"),
        (lambda rng: SlowCalls(1, 2, 1, rng), "slow_share: expected a number >= 0 and <= 1, got 2"),
    ],
)
def test_refuses_what_is_out_of_range(make_one: Callable[[Any], Any], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        make_one(np.random.default_rng(0))


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"kind": "gama", "mean_s": 1}, r"kind: expected one of deterministic, exponential, .*, got 'gama'"),
        ({"mean_s": 1}, r"kind: expected one of .*, got nothing"),
        ({"kind": ["gamma"]}, r"kind: expected one of"),
        (
            {"kind": "gamma", "mean": 1, "shape": 1},
            r"mean: unknown key of kind gamma, expected mean_s, shape",
        ),
        ({"kind": "exponential", "mean_s": 1, "rng": 1}, r"rng: unknown key of kind exponential"),
        ({"kind": "gamma", "mean_s": 1}, r"shape: missing, kind gamma expects mean_s, shape"),
        ({"kind": "exponential", "mean_s": "1"}, r"mean_s: expected seconds >= 0, got '1'"),
        ({"kind": "exponential", "mean_s": True}, r"mean_s: expected seconds >= 0, got True"),
        ({"kind": "empirical", "sample_s": ["a"]}, r"sample_s: expected numbers"),
    ],
)
def test_a_configuration_that_is_wrong_says_what_is_legal(mapping: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_mapping(mapping, np.random.default_rng(0))
