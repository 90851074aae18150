"""Planned send times from a recorded trace. Arrays in, arrays out; reading files is the caller's.

A trace is arrival times (`since_first`, `replayed`) or counts per bin (`from_counts`). Times are
seconds, ascending. What is wrong with a trace raises ValueError with the place of the first bad value.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.workload.ranges import number, numbers

Times = NDArray[np.float64]


def since_first(timestamps: ArrayLike) -> Times:
    """Seconds since the first of `timestamps` `[n]`: datetime64 values, or seconds since any epoch.

    The differences are taken before the conversion to floats, so nothing of a nanosecond stamp is lost.
    Raises ValueError for an empty or unsorted trace, NaN or NaT.
    """
    stamps = np.asarray(timestamps)
    if stamps.ndim != 1 or not len(stamps):
        raise ValueError(f"timestamps: expected a list of at least one, got shape {list(stamps.shape)}")
    if stamps.dtype.kind not in "iufM":
        raise ValueError(f"timestamps: expected dates or numbers of seconds, got {stamps.dtype}")
    # An unsigned difference would wrap around; isnat and isnan are for one kind each.
    stamps = stamps.astype(np.int64) if stamps.dtype.kind == "u" else stamps
    bad = np.flatnonzero(~np.isfinite(stamps))
    if len(bad):
        raise ValueError(f"timestamps[{bad[0]}]: expected a date or a finite number, got {stamps[bad[0]]}")
    _check_ascending("timestamps", stamps)
    since = stamps - stamps[0]
    if since.dtype.kind == "m":
        since = since / np.timedelta64(1, "s")
    return since.astype(np.float64)


def replayed(
    times: ArrayLike, *, rate: float | None = None, offset: float = 0.0, duration: float | None = None
) -> Times:
    """The part of a trace that begins at `offset`, stretched to a mean rate and cut to a duration.

    times: `[n]`, seconds >= 0, ascending. offset: seconds of the trace; that moment becomes time 0.
    rate: queries per second from time 0 to the last query; all gaps are stretched by one factor, so
    bursts stay bursts. duration: seconds of the run, > 0. With both, the next rate x duration queries
    are taken (rounded), so that the run has that mean rate whatever the rest of the trace has.

    Raises ValueError for an empty, unsorted, negative or NaN trace, arguments out of range, or a trace
    with too few queries after the offset.
    """
    recorded = numbers("times", times)
    _check_ascending("times", recorded)
    offset, rate, duration = _checked(offset, rate, duration)
    part = recorded[np.searchsorted(recorded, offset) :] - offset
    if duration is not None and rate is None:
        part = part[part < duration]
    elif duration is not None and rate is not None:
        wanted = max(1, round(rate * duration))
        if len(part) < wanted:
            raise ValueError(
                f"duration: the trace has {len(part)} queries from {offset:g} s on, "
                f"{wanted} are needed for {duration:g} s at {rate:g} per second"
            )
        part = part[:wanted]
    if not len(part):
        raise ValueError(f"offset: the trace has no query in the wanted part from {offset:g} s on")
    if rate is None:
        return part
    if part[-1] == 0:
        raise ValueError("rate: all queries of the wanted part are at one moment and cannot be stretched")
    scaled: Times = part * (len(part) / rate / part[-1])
    return scaled


def from_counts(
    counts: ArrayLike,
    rng: np.random.Generator,
    *,
    bin_s: float = 1.0,
    rate: float | None = None,
    offset: float = 0.0,
    duration: float | None = None,
) -> Times:
    """A Poisson process whose rate in each bin is what was counted there.

    counts: `[bins]`, >= 0, of `bin_s` seconds each; fractions are allowed. offset, duration: which
    seconds of the trace are taken; `offset` becomes time 0. rate: if given, all counts are multiplied
    by one factor so that the part's mean rate is this, in expectation; its time axis stays as it is.

    Raises ValueError for an empty, negative or NaN trace, arguments out of range, a part that ends
    after the trace, or a rate for a part in which nothing was counted.
    """
    counted = numbers("counts", counts)
    bin_s = number("bin_s", bin_s, above=0, unit="seconds")
    offset, rate, duration = _checked(offset, rate, duration)
    end = len(counted) * bin_s
    if offset >= end:
        raise ValueError(f"offset: expected less than the trace's {end:g} seconds, got {offset:g}")
    # The slack keeps 0.1 x 10 seconds from ending after ten bins of 0.1 s.
    if duration is not None and offset + duration > end * (1 + 1e-12):
        raise ValueError(
            f"duration: expected at most {end - offset:g} seconds, what the trace has left, got {duration:g}"
        )
    stop = end if duration is None else offset + duration
    edges = np.clip(np.arange(len(counted) + 1) * bin_s, offset, stop)
    begins, widths = edges[:-1], np.diff(edges)
    expected = counted * (widths / bin_s)
    if rate is not None:
        if not expected.any():
            raise ValueError("rate: nothing was counted in the wanted part, so there is nothing to scale")
        expected *= rate * (stop - offset) / expected.sum()
    drawn = rng.poisson(expected)
    # Given their number, the points of a Poisson process of constant rate are independent and uniform.
    places = np.repeat(begins, drawn) + np.repeat(widths, drawn) * rng.random(int(drawn.sum()))
    return np.sort(places - offset)


def _checked(
    offset: float, rate: float | None, duration: float | None
) -> tuple[float, float | None, float | None]:
    return (
        number("offset", offset, at_least=0, unit="seconds"),
        None if rate is None else number("rate", rate, above=0, unit="queries per second"),
        None if duration is None else number("duration", duration, above=0, unit="seconds"),
    )


def _check_ascending(name: str, values: NDArray[np.generic]) -> None:
    # Compared, not subtracted: works for numbers and dates alike.
    back = np.flatnonzero(values[1:] < values[:-1])  # type: ignore[operator]
    if len(back):
        i = int(back[0]) + 1
        raise ValueError(f"{name}[{i}]: expected ascending values, got {values[i]} after {values[i - 1]}")
