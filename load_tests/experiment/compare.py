"""Which differences between two measurements are real.

The difference of two figures is drawn again and again: each side from block resamples of its own queries
(`resample`), which covers what the queries of a run can tell. Where repetitions differ by more than that,
noise of their spread is added to the draws, t-distributed because two or three repetitions know their
spread badly. Real means that the central 95 % of the draws lie on one side of zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from load_tests.experiment.resample import FIGURES, interval
from load_tests.experiment.rows import EQUAL_RESOURCES, Measurement, Variant, partner, same_rate

Floats = NDArray[np.float64]
STATISTICS = {
    "p50": "p50_ms",
    "mean": "mean_ms",
    "p90": "p90_ms",
    "p99": "p99_ms",
    "p99.5": "p995_ms",
    "p99.9": "p999_ms",
}

NEAR = 1.25


@dataclass(frozen=True)
class Difference:
    """A statistic of `a` minus that of `b`, in ms. low, high: its 95 % interval.

    ratio: a / b, None if it has no finite value. p: two-sided, no smaller than the resamples allow.
    """

    a: float
    b: float
    low: float
    high: float
    p: float

    @property
    def value(self) -> float:
        """a - b in ms; 0 if both are infinite."""
        return 0.0 if self.a == self.b else self.a - self.b

    @property
    def ratio(self) -> float | None:
        """a / b, or None where that is no number."""
        return self.a / self.b if math.isfinite(self.a) and math.isfinite(self.b) and self.b else None

    @property
    def real(self) -> bool:
        """Whether the interval lies on one side of zero."""
        return self.low > 0 or self.high < 0

    @property
    def word(self) -> str:
        """`real` or `not shown`."""
        return "real" if self.real else "not shown"


@dataclass(frozen=True)
class Comparison:
    """One line of a comparison: `a` against `b` at a's rate. run_a, run_b: the runs' names."""

    run_a: str
    run_b: str
    a: Measurement
    b: Measurement
    statistic: str
    difference: Difference

    def as_json(self) -> dict[str, Any]:
        """Plain values; infinities are null."""

        def finite(value: float | None) -> float | None:
            return value if value is not None and math.isfinite(value) else None

        def side(run: str, one: Measurement, value: float) -> dict[str, Any]:
            repetitions = one.row["repetitions"]
            return {
                "run": run,
                **one.variant._asdict(),
                "rate": one.rate,
                "value_ms": finite(value),
                "repetitions": repetitions,
            }

        d = self.difference
        return {
            "statistic": self.statistic,
            "a": side(self.run_a, self.a, d.a),
            "b": side(self.run_b, self.b, d.b),
            "difference_ms": finite(round(d.value, 3)),
            "interval_ms": [finite(d.low), finite(d.high)],
            "ratio": finite(d.ratio),
            "p": d.p,
            "verdict": d.word,
        }


def difference(a: Measurement, b: Measurement, statistic: str) -> Difference:
    """Compare two measurements. Raises ValueError for a statistic that is not in `STATISTICS`."""
    if statistic not in STATISTICS:
        raise ValueError(f"statistic: expected one of {', '.join(STATISTICS)}, got {statistic!r}")
    i = FIGURES.index(STATISTICS[statistic])
    rng = np.random.default_rng(i)
    # Shuffled: cells of the same name in two runs were drawn by the same random numbers.
    ours, theirs = a.draws[:, i], rng.permutation(b.draws[:, i])
    with np.errstate(invalid="ignore"):
        drawn = np.where(ours == theirs, 0.0, ours - theirs)
    drawn = _with_spread(drawn, a.by_repetition[:, i], b.by_repetition[:, i], rng)
    low, high = interval(drawn)
    below, above = np.count_nonzero(drawn <= 0), np.count_nonzero(drawn >= 0)
    p = min(1.0, 2 * (min(below, above) + 1) / (len(drawn) + 1))
    return Difference(
        a.row[STATISTICS[statistic]],
        b.row[STATISTICS[statistic]],
        round(low, 3),
        round(high, 3),
        round(float(p), 4),
    )


def level(one: Measurement, best: Measurement, statistic: str) -> bool:
    """Whether a measurement stands beside the best: not shown to differ, and at most a quarter above it.

    The second condition is for those who scatter so much that nothing could be shown.
    """
    if one is best:
        return True
    found = difference(one, best, statistic)
    return not found.real and found.a <= NEAR * found.b


def default_baseline(variants: Sequence[Variant]) -> str:
    """The plan that others are compared with: Equal-Resources if it was run, else the first."""
    plans = [variant.plan for variant in variants]
    return EQUAL_RESOURCES if EQUAL_RESOURCES in plans else plans[0]


def compare_plans(
    run: str, measurements: Sequence[Measurement], statistic: str, plan: str | None = None
) -> list[Comparison]:
    """Every variant of one run against the baseline plan, at each rate that both have.

    Raises ValueError if the run has no such plan.
    """
    variants = [one.variant for one in measurements]
    plan = plan or default_baseline(variants)
    if plan not in {variant.plan for variant in variants}:
        known = ", ".join(dict.fromkeys(variant.plan for variant in variants))
        raise ValueError(f"baseline: expected a plan of {run}, one of {known}; got {plan!r}")
    found = []
    for one in measurements:
        other = partner(one, measurements, plan)
        if one.variant.plan != plan and other is not None:
            found.append(Comparison(run, run, one, other, statistic, difference(one, other, statistic)))
    return found


def compare_runs(
    run: str, measurements: Sequence[Measurement], first: str, before: Sequence[Measurement], statistic: str
) -> list[Comparison]:
    """Every variant of a run against the same variant of the first run.

    At the same rate; or, if the two runs have no rate in common, at the same load.
    """
    shared = {same_rate(o.rate) for o in before} & {same_rate(o.rate) for o in measurements}

    def place(one: Measurement) -> float | None:
        return same_rate(one.rate) if shared else one.load and same_rate(one.load)

    there = {(o.variant, place(o)): o for o in before if place(o) is not None}
    pairs = [(one, there.get((one.variant, place(one)))) for one in measurements]
    return [
        Comparison(run, first, one, other, statistic, difference(one, other, statistic))
        for one, other in pairs
        if other is not None
    ]


def _with_spread(drawn: Floats, a: Floats, b: Floats, rng: np.random.Generator) -> Floats:
    """The draws (ms), and noise for what repetitions differ by beyond the scatter of their queries."""
    repeated = [side for side in (a, b) if len(side) > 1]
    if any(0 < np.count_nonzero(np.isinf(side)) < len(side) for side in repeated):
        # Failing in some repetitions and not in others: no spread can be given, so nothing is shown.
        return np.where(np.arange(len(drawn)) % 2, np.inf, -np.inf)
    known = [side for side in repeated if np.isfinite(side).all()]
    within = drawn[np.isfinite(drawn)]
    if not known or not len(within):
        return drawn
    # A side whose spread is not known is taken to scatter like the other.
    sources = [side if any(side is one for one in known) else known[0] for side in (a, b)]
    parts = [
        float(np.var(source, ddof=1)) * _median_factor(len(side))
        for source, side in zip(sources, (a, b), strict=True)
    ]
    extra = sum(parts) - float(np.var(within))
    if extra <= 0:
        return drawn
    # Welch and Satterthwaite: how well the spread itself is known.
    weights = sum(part**2 / (len(source) - 1) for part, source in zip(parts, sources, strict=True))
    noise: Floats = math.sqrt(extra) * rng.standard_t(sum(parts) ** 2 / weights, len(drawn))
    return drawn + noise


def _median_factor(n: int) -> float:
    """Variance of the median of n normal values, as a share of the variance of one."""
    return (1.0, 0.5, 0.449)[n - 1] if n <= 3 else math.pi / (2 * n)
