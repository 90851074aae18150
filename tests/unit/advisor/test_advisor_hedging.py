"""Hedges and parities: the tables of closed forms, and draws."""

from __future__ import annotations

import numpy as np
import pytest

from parm_ray.advisor import (
    Losers,
    coded_group,
    hedge,
    hedge_rate,
    hedge_survival,
    parity_survival,
    unanswered_share,
)
from parm_ray.advisor.parity import Decoding
from parm_ray.stats.families import (
    Bimodal,
    Empirical,
    Exponential,
    Family,
    Hyperexponential,
    Pareto,
    ShiftedExponential,
)

EXP = Exponential(1.0)
HYPER = Hyperexponential(0.9, (1.0, 0.1))
MODES = Bimodal(1.0, 10.0, 0.05)


@pytest.mark.parametrize(
    ("x", "delay_s", "latency_s", "cost_s"),
    [
        (EXP, 0.0, 0.5, 1.0),
        (EXP, 1.0, 0.8161, 1.0),
        (EXP, 2.9957, 0.975, 1.0),
        (ShiftedExponential(0.5, 2.0), 0.0, 0.75, 1.5),
        (ShiftedExponential(0.5, 2.0), 1.5, 0.9876, 1.0428),
        (ShiftedExponential(0.5, 2.0), 1.99787, 0.9954, 1.0158),
        (HYPER, 0.0, 0.6186, 1.2373),
        (HYPER, 1.0, 0.9624, 1.2608),
        (HYPER, 7.094, 1.4726, 1.5378),
        (Pareto(1.0, 2.5), 0.0, 1.25, 2.5),
        (Pareto(1.0, 2.5), 1.5, 1.5353, 1.7669),
        (Pareto(1.0, 2.5), 3.3145, 1.6036, 1.6510),
        (MODES, 0.0, 1.0225, 2.045),
        (MODES, 1.0, 1.07, 1.14),
        (MODES, 10.0, 1.45, 1.45),
    ],
)
def test_the_table_of_hedges(x: Family, delay_s: float, latency_s: float, cost_s: float) -> None:
    found = hedge(x, 1, delay_s)
    assert (found.latency_s, found.cost_s) == pytest.approx((latency_s, cost_s), abs=1e-4)


@pytest.mark.parametrize("x", [HYPER, Pareto(1.0, 4.5), MODES, Empirical([0.1, 0.2, 0.3, 9.4])])
def test_a_hedge_is_what_it_says(x: Family) -> None:
    """Draws of min(X, d + X'); what a second server does until then, or to its end."""
    rng, d = np.random.default_rng(3), 1.2
    first, second = x.sample(rng, (2, 200_000))
    done = np.minimum(first, d + second)
    sent = first > d
    found, free = hedge(x, 2, d), hedge(x, 2, d, Losers(None))
    assert found.latency_s == free.latency_s == pytest.approx(done.mean(), rel=0.02)
    assert found.cost_s == pytest.approx((done + sent * (done - d)).mean(), rel=0.02)
    assert hedge(x, 2, d, Losers(0.3)).cost_s == pytest.approx(found.cost_s + 0.3 * hedge_rate(x, d))
    assert free.cost_s == pytest.approx((first + sent * second).mean(), rel=0.03)
    assert free.max_rate == pytest.approx(2 / free.cost_s)
    for t in (0.5, 1.5, 4.0):
        assert float(hedge_survival(x, d, t)) == pytest.approx((done > t).mean(), abs=0.005)


@pytest.mark.parametrize(("k", "expected"), [(2, 2 / 3), (3, 0.75), (4, 0.8)])
def test_one_parity_for_k_queries(k: int, expected: float) -> None:
    """E[T] = k / (k + 1) for exponential times."""
    found = coded_group(EXP, 12, k, 1)
    assert (found.latency_s, found.cost_s) == pytest.approx((expected, 1 + 1 / k), abs=1e-6)
    assert found.max_rate == pytest.approx(12 * k / (k + 1))


@pytest.mark.parametrize(("k", "late"), [(2, 1.99e-4), (3, 2.97e-4), (4, 3.94e-4)])
def test_queries_that_parity_cannot_save(k: int, late: float) -> None:
    assert unanswered_share(0.01, k, 1) == pytest.approx(late, rel=2e-3)
    assert unanswered_share(0.01, k, 1) == pytest.approx(0.01 * (1 - 0.99**k))
    # Slots need no other answer: as good as a copy, for 1/k of its load.
    assert unanswered_share(0.01, k, 1, "slot") == pytest.approx(1e-4)


@pytest.mark.parametrize("decoding", ["subtraction", "slot"])
@pytest.mark.parametrize(("k", "r"), [(2, 1), (3, 2), (2, 3), (4, 1)])
def test_a_group_is_what_it_says(decoding: Decoding, k: int, r: int) -> None:
    """Draws of a group: own answer, or the k-th of the others, or the first parity; parities slower."""
    rng, x, slower = np.random.default_rng([k, r]), HYPER, Exponential(0.6)
    own, others = x.sample(rng, 200_000), x.sample(rng, (200_000, k - 1))
    parities = slower.sample(rng, (200_000, r))
    needed = (
        np.sort(np.hstack([others, parities]), 1)[:, k - 1] if decoding == "subtraction" else parities.min(1)
    )
    done = np.minimum(own, needed)
    found = coded_group(x, 6, k, r, decoding, slower)
    assert found.latency_s == pytest.approx(done.mean(), rel=0.01)
    assert found.cost_s == pytest.approx(x.mean + r * slower.mean / k)
    for t in (0.3, 2.0):
        assert float(parity_survival(x, k, r, t, decoding, slower)) == pytest.approx(
            (done > t).mean(), abs=0.005
        )


def test_the_far_tail_of_a_group() -> None:
    """P(T > t) nears C(k-1+r, r) S^(r+1) by subtraction."""
    assert float(parity_survival(EXP, 4, 2, 12.0)) == pytest.approx(10 * np.exp(-36), rel=1e-3)
    assert float(parity_survival(EXP, 4, 2, 12.0, "slot")) == pytest.approx(np.exp(-36), rel=1e-9)


def test_one_query_with_one_parity_is_two_copies() -> None:
    for decoding in ("subtraction", "slot"):
        assert coded_group(HYPER, 2, 1, 1, decoding).latency_s == pytest.approx(HYPER.min_mean(2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: hedge(EXP, 1, -0.1), "delay_s: .* >= 0"),
        (lambda: coded_group(EXP, 1, 0, 1), "k: expected >= 1"),
        (lambda: coded_group(EXP, 1, 2, 0), "r: expected >= 1"),
        (lambda: parity_survival(EXP, 2, 1, 1.0, "sum"), "decoding"),
    ],
)
def test_what_is_no_hedge_or_group_is_named(call: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
