import numpy as np
import pytest

from parm_ray.redundancy import Hedge, Hedger, best_delay


def test_a_fixed_delay_is_there_from_the_start_and_never_changes() -> None:
    hedger = Hedger(Hedge("fixed", 0.05))
    for _ in range(500):
        hedger.observe(1.0)
    assert hedger.delay_s == 0.05


def test_a_quantile_waits_until_enough_is_known() -> None:
    """Of 1..100 the 0.9-quantile by nearest rank is 90."""
    hedger = Hedger(Hedge("quantile", quantile=0.9, least=100))
    for value in range(1, 100):
        hedger.observe(float(value))
        assert hedger.delay_s is None
    hedger.observe(100.0)
    assert hedger.delay_s == 90.0


def test_a_search_hedges_behind_the_body_where_a_quantile_falls_into_the_slow_mode() -> None:
    """6 % of calls take ten times as long: p95 is one of those, and useless; the best delay ends the body."""
    rng = np.random.default_rng(0)
    times = 1 + rng.exponential(0.1, 1000)
    times[:60] *= 10
    rng.shuffle(times)
    searched, quantile = (
        Hedger(Hedge(rule, quantile=q, least=100)) for rule, q in (("searched", 0.99), ("quantile", 0.95))
    )
    for value in times:
        searched.observe(float(value))
        quantile.observe(float(value))
    assert searched.delay_s is not None
    assert quantile.delay_s is not None
    assert 1.0 < searched.delay_s < 2.0
    assert quantile.delay_s > 9.0


def test_the_best_delay_of_a_bimodal_sample_is_the_fast_time() -> None:
    """X = 1 (95 %) or 10 (5 %): facts table, d = 1 gives E[T] 1.07; waiting to 10 has no effect at all."""
    times = np.sort(np.repeat([1.0, 10.0], [950, 50]))
    assert best_delay(times, 0.99, 0.1) == 1.0


def test_of_delays_that_do_as_well_within_three_percent_the_longest_is_taken() -> None:
    """X is 50..51 ms, and 500 ms (2 %): hedging a tenth of the fast ones gains under 1 ms of 101."""
    times = np.sort(np.concatenate([np.linspace(0.050, 0.051, 980), np.full(20, 0.5)]))
    assert best_delay(times, 0.99, 0.1) == pytest.approx(0.051, rel=1e-3)
    hedged = np.mean(times > best_delay(times, 0.99, 0.1))
    assert hedged == pytest.approx(0.02, abs=0.005), "and hardly any but the slow ones are hedged"


def test_delays_that_would_hedge_more_than_the_budget_allows_are_left_out() -> None:
    """With 20 % slow and a budget of 10 %, every delay below the slow time is too dear.

    Hedged at 1, 4 % stay slow: the 0.95-quantile is then 2, the 0.99-quantile as bad as before.
    """
    times = np.sort(np.repeat([1.0, 10.0], [800, 200]))
    assert best_delay(times, 0.95, 0.1) == 10.0
    assert best_delay(times, 0.95, 0.2) == 1.0
    assert best_delay(times, 0.99, 0.2) == 10.0


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"rule": "best"}, "rule"),
        ({"rule": "fixed"}, "delay_s"),
        ({"rule": "fixed", "delay_s": -1.0}, "delay_s"),
        ({"quantile": 1.0}, "quantile"),
        ({"least": 1}, "least"),
        ({"max_hedges": 0}, "max_hedges"),
        ({"least": 2000}, "least"),
    ],
)
def test_fields_out_of_range_are_refused_by_name(fields: dict[str, object], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Hedge(**fields)  # type: ignore[arg-type]
