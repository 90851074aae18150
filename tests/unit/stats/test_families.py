"""Families of service times: against the table of formulas, against sums by hand, against their own draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import comb

from parm_ray.stats.families import (
    Bimodal,
    Deterministic,
    Discrete,
    Empirical,
    Exponential,
    Family,
    Gamma,
    Hyperexponential,
    LogNormal,
    Pareto,
    ShiftedExponential,
    Uniform,
    Weibull,
)

FAMILIES: list[Family] = [
    Exponential(2.0),
    ShiftedExponential(0.5, 2.0),
    Pareto(1.0, 4.5),
    Hyperexponential(0.9, (1.0, 0.1)),
    Weibull(0.7, 1.0),
    Weibull(1.4, 2.0),
    Gamma(0.5, 1.0),
    Gamma(3.0, 0.2),
    LogNormal(-0.3, 0.8),
    Uniform(0.2, 1.4),
    Deterministic(0.3),
    Bimodal(1.0, 10.0, 0.05),
    Empirical([1.0, 2.0, 3.0, 6.0]),
]


def name(family: Family) -> str:
    return f"{type(family).__name__}-{family.mean:.3g}"


def raw(family: Family, k: int, n: int, moment: int = 1) -> float:
    """The moment from its definition, by integrating the binomial sum: no closed form, no beta function."""

    def tail(t: np.ndarray) -> np.ndarray:
        s = family.survival(t)
        return sum(comb(n, j) * (1 - s) ** j * s ** (n - j) for j in range(k))

    return family.integral(tail, moment=moment)


@pytest.mark.parametrize("family", FAMILIES, ids=name)
def test_moments_are_the_integrals_of_the_tail(family: Family) -> None:
    assert family.mean == pytest.approx(family.integral(family.survival), rel=1e-7)
    assert family.second_moment == pytest.approx(family.integral(family.survival, moment=2), rel=1e-6)
    for r in (1, 2, 5):
        assert family.min_mean(r) == pytest.approx(raw(family, 1, r), rel=1e-7)
        assert family.min_second_moment(r) == pytest.approx(raw(family, 1, r, 2), rel=1e-6)
    for k, n in ((2, 3), (4, 4), (3, 7)):
        assert family.order_mean(k, n) == pytest.approx(raw(family, k, n), rel=1e-6)
        assert family.order_second_moment(k, n) == pytest.approx(raw(family, k, n, 2), rel=1e-5)


@pytest.mark.parametrize("family", FAMILIES, ids=name)
def test_draws_have_the_tail_and_the_mean(family: Family) -> None:
    drawn = family.sample(np.random.default_rng(1), (40, 500))
    assert drawn.shape == (40, 500)
    error = math.sqrt(family.second_moment / drawn.size)
    assert drawn.mean() == pytest.approx(family.mean, abs=4 * error)
    for t in np.quantile(drawn, [0.1, 0.5, 0.95]):
        assert (drawn > t).mean() == pytest.approx(float(family.survival(t)), abs=0.015)


@pytest.mark.parametrize("family", FAMILIES, ids=name)
def test_the_order_statistics_of_n_sum_to_n_means(family: Family) -> None:
    assert sum(family.order_mean(k, 6) for k in range(1, 7)) == pytest.approx(6 * family.mean, rel=1e-7)


@pytest.mark.parametrize("family", FAMILIES, ids=name)
def test_the_log_of_the_tail_bends_as_it_is_said(family: Family) -> None:
    """Second differences of log S on an even grid: none above 0 if concave, none below if convex."""
    drawn = family.sample(np.random.default_rng(2), 2000)
    with np.errstate(divide="ignore", invalid="ignore"):
        bend = np.diff(np.log(family.survival(np.linspace(0, np.quantile(drawn, 0.995), 400))), 2)
    up, down = bool(np.any(bend > 1e-9)), bool(np.any(bend < -1e-9))
    assert (up, down) == {
        "concave": (False, True),
        "convex": (True, False),
        "both": (False, False),
        "neither": (True, True),
    }[family.log_tail]


@pytest.mark.parametrize(
    ("family", "m1", "m2", "second_of_three", "twice_m1"),
    [
        # By hand from the formulas: E[X_{1:2}], E[X_{1:2}^2], E[X_{2:3}], 2 E[X_{1:2}].
        (Exponential(2.0), 0.25, 0.125, 0.416667, 0.5),
        (ShiftedExponential(0.5, 2.0), 0.75, 0.625, 0.916667, 1.5),
        (Pareto(1.0, 2.5), 1.25, 1.666667, 1.442308, 2.5),
        (Hyperexponential(0.9, (1.0, 0.1)), 0.618636, 1.202521, None, 1.237273),
        (Weibull(0.5, 1.0), 0.5, 1.5, None, 1.0),
        (Bimodal(1.0, 10.0, 0.05), 1.0225, 1.2475, 1.06525, 2.045),
    ],
)
def test_the_table_of_minima(
    family: Family, m1: float, m2: float, second_of_three: float | None, twice_m1: float
) -> None:
    assert family.min_mean(2) == pytest.approx(m1, abs=1e-6)
    assert family.min_second_moment(2) == pytest.approx(m2, abs=1e-6)
    assert 2 * family.min_mean(2) == pytest.approx(twice_m1, abs=1e-6)
    if second_of_three is not None:
        assert family.order_mean(2, 3) == pytest.approx(second_of_three, abs=1e-6)


def test_two_copies_of_a_pareto_time_are_cheaper_below_a_shape_of_three_halves_alone() -> None:
    for shape, cheaper in ((1.2, True), (1.45, True), (1.55, False), (2.5, False)):
        x = Pareto(1.0, shape)
        assert (2 * x.min_mean(2) < x.mean) is cheaper
        assert min((r * x.min_mean(r), r) for r in range(1, 9))[1] == (2 if cheaper else 1)


def test_heavy_tails_have_no_moments_and_order_statistics_have_more() -> None:
    x = Pareto(2.0, 0.9)
    assert (x.mean, x.second_moment, x.cv2) == (math.inf, math.inf, math.inf)
    assert x.min_mean(2) == pytest.approx(2 * 1.8 / 0.8)
    assert x.min_second_moment(2) == math.inf
    assert x.order_mean(4, 4) == math.inf


def test_many_copies_keep_their_digits() -> None:
    assert Exponential(1.0).order_mean(500, 1000) == pytest.approx(sum(1 / i for i in range(501, 1001)))
    assert Weibull(1.4, 1.0).order_mean(1, 2000) == pytest.approx(raw(Weibull(1.4, 1.0), 1, 2000), rel=1e-6)
    assert Bimodal(1, 10, 0.05).order_mean(900, 1000) == pytest.approx(1.0, abs=1e-6)


def test_equal_values_of_a_sample_are_put_together() -> None:
    x = Empirical([1.0, 1.0, 1.0, 9.0])
    assert x.knots == (1.0, 9.0)
    assert [float(s) for s in x.survival([-1, 0.9, 1, 8.9, 9])] == pytest.approx([1, 1, 0.25, 0.25, 0])
    assert x.order_mean(2, 2) == pytest.approx(1 + 8 * (1 - 0.75**2))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Exponential(0.0), "rate: .* > 0"),
        (lambda: ShiftedExponential(-1.0, 1.0), "shift: .* >= 0"),
        (lambda: Pareto(1.0, math.inf), "shape: .* finite"),
        (lambda: Hyperexponential(1.1, (1.0, 2.0)), "share: expected 0..1"),
        (lambda: Hyperexponential(0.5, (1.0, 0.0)), r"rates\[1\]"),
        (lambda: Weibull(1.0, -1.0), "scale"),
        (lambda: LogNormal(math.nan, 1.0), "mu"),
        (lambda: Uniform(2.0, 1.0), "low < high"),
        (lambda: Bimodal(2.0, 1.0, 0.1), "slow: .* >= 2"),
        (lambda: Empirical([]), "values: .* none"),
        (lambda: Empirical([1.0, -1.0]), "values: .* >= 0"),
        (lambda: Discrete([1.0, 2.0], [0.5, 0.4]), "sum to 1"),
        (lambda: Exponential(1.0).order_mean(3, 2), r"k: expected 1..n \(2\)"),
    ],
)
def test_what_is_no_family_is_named(make: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()
