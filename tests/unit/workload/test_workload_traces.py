from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from parm_ray.workload.traces import from_counts, replayed, since_first


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_trace_is_replayed_as_it_is() -> None:
    assert replayed([0, 0.5, 0.5, 4]).tolist() == [0, 0.5, 0.5, 4]


def test_an_offset_moves_the_origin_and_keeps_the_query_at_it() -> None:
    assert replayed([0.0, 1.0, 2.0, 2.5], offset=1.0).tolist() == [0.0, 1.0, 1.5]


def test_a_duration_cuts_below_it() -> None:
    assert replayed([0.0, 1.0, 2.0, 3.0], duration=2.0).tolist() == [0.0, 1.0]
    assert replayed([0.0, 1.0, 2.0, 3.0], offset=0.5, duration=2.0).tolist() == [0.5, 1.5]


def test_a_rate_stretches_all_gaps_by_one_factor() -> None:
    times = np.array([0.0, 1.0, 1.0, 4.0])
    scaled = replayed(times, rate=2.0)
    assert len(scaled) / scaled[-1] == pytest.approx(2.0)
    assert scaled.tolist() == pytest.approx((times / 2).tolist())


def test_rate_and_duration_take_so_many_queries_from_the_offset() -> None:
    # Sparse at first, dense later: the mean rate of the whole would be wrong for either part.
    times = np.concatenate([np.arange(100.0), 100 + np.arange(1000) / 10])
    for offset in (0.0, 30.0, 150.0):
        run = replayed(times, rate=5.0, duration=4.0, offset=offset)
        assert len(run) == 20
        assert run[-1] == pytest.approx(4.0)


@given(
    gaps=st.lists(st.floats(0.001, 10), min_size=2, max_size=60),
    rate=st.floats(0.1, 500),
    offset_share=st.floats(0, 0.9),
)
def test_replayed_times_ascend_from_zero_on_at_the_rate(
    gaps: list[float], rate: float, offset_share: float
) -> None:
    times = np.cumsum(gaps)
    run = replayed(times, rate=rate, offset=offset_share * float(times[-1]))
    assert (np.diff(run) >= 0).all()
    assert run[0] >= 0
    assert len(run) / run[-1] == pytest.approx(rate)


def test_dates_and_epochs_become_seconds_since_the_first() -> None:
    dates = np.array(["2026-01-01T00:00:00", "2026-01-01T00:00:00.25", "2026-01-01T00:01"], "M8[ns]")
    assert since_first(dates).tolist() == [0.0, 0.25, 60.0]
    # As floats these three would be one moment: an epoch in nanoseconds has 61 bits.
    assert since_first(dates[:1] + np.array([0, 1, 2], "m8[ns]")).tolist() == [0.0, 1e-9, 2e-9]
    assert since_first([1_700_000_000, 1_700_000_003]).tolist() == [0.0, 3.0]
    assert since_first(np.array([5, 7], np.uint64)).tolist() == [0.0, 2.0]
    assert since_first([-2.5, -2.0]).tolist() == [0.0, 0.5]


@pytest.mark.parametrize(
    ("stamps", "message"),
    [
        ([], "at least one"),
        ([1.0, math.nan], r"timestamps\[1\]: expected a date or a finite number, got nan"),
        (np.array(["2026-01-01", "NaT"], "M8[s]"), r"timestamps\[1\]: .* got NaT"),
        ([3.0, 1.0], r"timestamps\[1\]: expected ascending values, got 1.0 after 3.0"),
        (np.array([3, 1], np.uint64), r"timestamps\[1\]: expected ascending"),
        (np.array(["2026-01-02", "2026-01-01"], "M8[s]"), r"timestamps\[1\]: expected ascending"),
        (["yesterday"], "expected dates or numbers"),
    ],
)
def test_refuses_bad_timestamps(stamps: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        since_first(stamps)


@pytest.mark.parametrize(
    ("times", "options", "message"),
    [
        ([], {}, "times: expected a list of at least one number"),
        ([[1.0]], {}, "times: expected a list"),
        ([0.0, math.nan], {}, r"times\[1\]: .* got nan"),
        ([-1.0, 0.0], {}, r"times\[0\]: .* got -1"),
        ([0.0, 2.0, 1.0], {}, r"times\[2\]: expected ascending values, got 1.0 after 2.0"),
        ([0.0, 1.0], {"rate": 0}, "rate: expected queries per second > 0, got 0"),
        ([0.0, 1.0], {"duration": 0}, "duration: expected seconds > 0, got 0"),
        ([0.0, 1.0], {"offset": -1}, "offset: expected seconds >= 0, got -1"),
        ([0.0, 1.0], {"offset": 2}, "offset: the trace has no query .* from 2 s on"),
        ([5.0, 6.0], {"duration": 1}, "offset: the trace has no query"),
        ([1.0, 1.0], {"rate": 1, "offset": 1}, "rate: all queries of the wanted part are at one moment"),
        (
            [0.0, 1.0, 2.0],
            {"rate": 2, "duration": 5, "offset": 1},
            "duration: the trace has 2 queries from 1 s on, 10 are needed for 5 s at 2 per second",
        ),
    ],
)
def test_refuses_bad_traces(times: list, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replayed(times, **options)


def test_counts_are_poisson_in_each_bin_and_uniform_within() -> None:
    counts = np.array([0.0, 40.0, 10.0, 0.5])
    runs = [from_counts(counts, rng(seed), bin_s=2.0) for seed in range(400)]
    per_bin = np.array([np.histogram(run, bins=[0, 2, 4, 6, 8])[0] for run in runs])
    # Four standard errors: the variance of a Poisson number is its mean.
    assert (np.abs(per_bin.mean(axis=0) - counts) <= 4 * np.sqrt(counts / len(runs))).all()
    # The sample variance of n Poisson numbers of mean m has standard error about m sqrt(2 / n).
    assert per_bin[:, 1].var() == pytest.approx(40, abs=4 * 40 * math.sqrt(2 / len(runs)))
    inside = np.concatenate([run[(run >= 2) & (run < 4)] for run in runs])
    assert scipy.stats.kstest(inside, scipy.stats.uniform(2, 2).cdf).pvalue > 1e-3
    assert all((np.diff(run) >= 0).all() for run in runs)


def test_counts_are_scaled_to_a_mean_rate_on_the_same_time_axis() -> None:
    counts = [1, 3, 0, 4]
    run = from_counts(counts, rng(), rate=5_000.0)
    assert len(run) == pytest.approx(20_000, abs=4 * math.sqrt(20_000))
    per_bin = np.histogram(run, bins=np.arange(5))[0]
    assert per_bin[2] == 0
    assert per_bin == pytest.approx(np.array([2_500, 7_500, 0, 10_000]), abs=4 * math.sqrt(10_000))


def test_a_part_of_counts_may_begin_and_end_within_a_bin() -> None:
    run = from_counts([100_000, 10_000, 50_000], rng(), offset=0.75, duration=1.5)
    per_piece = np.histogram(run, bins=[0, 0.25, 1.25, 1.5])[0]
    expected = np.array([25_000, 10_000, 12_500])
    assert per_piece == pytest.approx(expected, abs=4 * math.sqrt(25_000))
    assert run.min() >= 0
    assert run.max() < 1.5
    scaled = from_counts([100, 10, 50], rng(), offset=0.75, duration=1.5, rate=10_000)
    assert len(scaled) == pytest.approx(15_000, abs=4 * math.sqrt(15_000))


def test_counts_that_fill_the_trace_exactly_are_no_error_of_rounding() -> None:
    assert from_counts([1] * 10, rng(), bin_s=0.1, duration=1.0, rate=50).max() < 1.0
    assert len(from_counts([0, 0], rng())) == 0


def test_same_generator_same_times() -> None:
    assert np.array_equal(from_counts([5, 9], rng(7)), from_counts([5, 9], rng(7)))


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        ([], {}, "counts: expected a list"),
        ([1, -1], {}, r"counts\[1\]"),
        ([1, math.nan], {}, r"counts\[1\]: .* got nan"),
        ([1], {"bin_s": 0}, "bin_s: expected seconds > 0"),
        ([1, 1], {"offset": 2}, "offset: expected less than the trace's 2 seconds, got 2"),
        ([1, 1], {"offset": 1, "duration": 1.5}, "duration: expected at most 1 seconds"),
        ([1, 1], {"rate": math.nan}, "rate: expected queries per second > 0"),
        ([0, 0, 1], {"rate": 1, "duration": 2}, "rate: nothing was counted in the wanted part"),
    ],
)
def test_refuses_bad_counts(counts: list, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_counts(counts, rng(), **options)
