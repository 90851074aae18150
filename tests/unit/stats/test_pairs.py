"""Copies that share their size: what marginal samples promise, what pairs show."""

from __future__ import annotations

import math

import numpy as np
import pytest

from parm_ray.stats.copies import SizeSlowdown, draw_copies
from parm_ray.stats.families import Bimodal, Deterministic, Exponential, Hyperexponential, LogNormal
from parm_ray.stats.order import cost_of_copies, gini
from parm_ray.stats.pairs import by_size, check_pairs, require_independent, size_share

SIZES = SizeSlowdown(LogNormal(0.0, 1.0), Bimodal(1.0, 10.0, 0.05))


def pairs(x: object, n: int, seed: int = 1) -> np.ndarray:
    return draw_copies(x, np.random.default_rng(seed), (n,), 2)


def test_a_marginal_sample_promises_what_copies_do_not_keep() -> None:
    """Log-normal sizes, one server in twenty ten times slower: 41 % dearer, not 27 % cheaper."""
    assert SIZES.mean == pytest.approx(2.390, abs=1e-3)
    true = 2 * SIZES.min_mean(2)
    # 2 e^(1/2) (1 + 9 / 400).
    assert true == pytest.approx(3.3716, abs=1e-4)
    assert true / SIZES.mean == pytest.approx(1.41, abs=5e-3)
    singles = pairs(SIZES, 400_000)[:, 0]
    assert cost_of_copies(singles, 2) == pytest.approx(1.753, abs=0.02)
    assert gini(singles) == pytest.approx(0.63, abs=5e-3)
    found = pairs(SIZES, 400_000).min(axis=1)
    assert 2 * found.mean() == pytest.approx(true, rel=0.015)


def test_when_size_is_all_copies_only_cost() -> None:
    size = SizeSlowdown(LogNormal(0.0, 1.0), Deterministic(1.0))
    assert 2 * size.min_mean(2) / size.mean == pytest.approx(2.0)
    # Independent log-normal times of sigma 1: 2 (1 - erf(1/2)).
    assert 2 * LogNormal(0.0, 1.0).min_mean(2) / size.mean == pytest.approx(2 * (1 - math.erf(0.5)), abs=1e-6)
    assert 2 * (1 - math.erf(0.5)) == pytest.approx(0.96, abs=1e-3)


def test_pairs_that_share_their_size_are_found_out() -> None:
    sample = pairs(SIZES, 400)
    found = check_pairs(sample, np.random.default_rng(2))
    assert not found.independent
    assert found.interval.low < 1.41 < found.interval.high
    assert found.independent_ratio < 0.85
    assert found.interval.low > found.independent_ratio
    with pytest.raises(ValueError, match=r"copies cost 1\.\d+ times one call, independent ones would 0\.\d+"):
        require_independent(sample, np.random.default_rng(2))


def test_independent_pairs_are_let_by_nineteen_times_in_twenty() -> None:
    x, rng = Hyperexponential(0.9, (1.0, 0.1)), np.random.default_rng(3)
    alarms = 0
    for _ in range(100):
        found = check_pairs(draw_copies(x, rng, (200,), 2), rng, resamples=99)
        alarms += not found.independent
        assert found.independent_ratio == pytest.approx(2 * x.min_mean(2) / x.mean, abs=0.25)
    assert alarms <= 12
    require_independent(pairs(Exponential(1.0), 500), np.random.default_rng(4))


def test_the_spread_is_divided() -> None:
    """log B has variance 1, log S (ln 10)^2 x .05 x .95 = .2518: four fifths are the size's."""
    found = size_share(pairs(SIZES, 200_000))
    slow = math.log(10) ** 2 * 0.05 * 0.95
    assert found.log_share == pytest.approx(1 / (1 + slow), abs=0.01)
    # cv^2 of the size is e - 1, of the slowdown 5.95 / 1.45^2 - 1.
    assert found.cv2_size == pytest.approx(math.e - 1, rel=0.15)
    assert found.cv2_slowdown == pytest.approx(5.95 / 1.45**2 - 1, rel=0.15)
    assert found.gini_slowdown == pytest.approx(1 - 1.0225 / 1.45, abs=0.01)
    alone = size_share(pairs(Hyperexponential(0.9, (1.0, 0.1)), 50_000))
    assert (alone.log_share, alone.cv2_size) == pytest.approx((0.0, 0.0), abs=0.05)


def test_a_predictor_of_the_size_serves_as_well() -> None:
    """Tokens that take 20 ms each: the law of the slowdown and the price of copies come back."""
    rng = np.random.default_rng(5)
    tokens = np.ceil(rng.lognormal(4.0, 1.0, 20_000))
    slow = np.where(rng.random(20_000) < 0.05, 10.0, 1.0)
    found = by_size(0.02 * tokens * slow, tokens)
    share = float((slow > 1).mean())
    assert found.mean == pytest.approx(0.02 * tokens.mean() * slow.mean())
    assert 2 * found.min_mean(2) / found.mean == pytest.approx(2 * (1 + 9 * share**2) / (1 + 9 * share))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: size_share(np.ones((300, 3))), r"shape \[n, 2\]"),
        (lambda: size_share(np.ones((150, 2))), "at least 200, got 150: measure 50 more"),
        (lambda: size_share(np.zeros((300, 2))), "> 0"),
        (lambda: size_share(np.ones((300, 2))), "all equal"),
        (lambda: by_size(np.ones(300), np.ones(299)), "sizes: expected as many"),
        (lambda: by_size(np.ones(300), np.zeros(300)), "sizes: expected finite"),
    ],
)
def test_what_is_no_pair_is_named(call: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
