"""Result rows: one per plan, pool, k and rate, over all repetitions.

A latency in a row is the median over repetitions of each repetition's figure; counts and shares are over
the queries of all of them. Percentiles are nearest rank with failed queries infinitely late
(`parm_ray.stats`). Warm-up records are gone before anything is counted.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from load_tests.experiment.columns import Columns, read_cell
from load_tests.experiment.resample import FIGURES, draws, figures, interval
from load_tests.experiment.runs import Cell, RunDirectory
from parm_ray.core import Outcome

Row = dict[str, Any]
Floats = NDArray[np.float64]
EQUAL_RESOURCES = "equal_resources"
ANSWERS = tuple(outcome for outcome in Outcome if outcome is not Outcome.FAILED)


class Variant(NamedTuple):
    """What is compared: a plan with its pool, k and r."""

    plan: str
    pool: str | None
    k: int | None
    r: int | None


@dataclass(frozen=True)
class Measurement:
    """One variant at one rate: its row, and what comparisons need besides.

    by_repetition: `[repetitions, len(FIGURES)]`, ms. draws: `[resamples, len(FIGURES)]`, the row's
    latencies in block resamples, ms. judged: (right, known) answers of each origin.
    send_lateness_p99: ms, of the worst repetition. drift: median latency of the last quarter over that
    of the second, in the worst repetition.
    """

    variant: Variant
    title: str
    rate: float
    load: float | None
    cells: tuple[Cell, ...]
    row: Row
    by_repetition: Floats
    draws: Floats
    judged: Mapping[Outcome, tuple[int, int]]
    send_lateness_p99: float
    drift: float

    def right(self, *outcomes: Outcome) -> tuple[int, int]:
        """(right, known) answers of these outcomes."""
        found = [self.judged[outcome] for outcome in outcomes]
        return sum(right for right, _ in found), sum(known for _, known in found)

    def tail_queries(self, q: float) -> float:
        """How many queries of a repetition are later than its q-percentile."""
        return (1 - q) * self.row["queries"] / self.row["repetitions"]


def measure(
    directory: RunDirectory, on_cell: Callable[[Cell], object] = lambda cell: None
) -> list[Measurement]:
    """Measure every variant at every rate, variants in the order of their first cell, rates ascending.

    on_cell is called before a cell is read. Raises RunError for records that cannot be read.
    """
    groups: dict[tuple[Variant, float], list[Cell]] = {}
    for cell in directory.run.cells:
        variant = Variant(cell.plan, cell.pool, cell.k, cell.r)
        groups.setdefault((variant, same_rate(cell.rate)), []).append(cell)
    order = list(dict.fromkeys(variant for variant, _ in groups))
    found = []
    for variant, rate in sorted(groups, key=lambda key: (order.index(key[0]), key[1])):
        cells = sorted(groups[variant, rate], key=lambda cell: cell.repetition)
        found.append(_measurement(directory, variant, cells, on_cell))
    for one in found:
        one.row["gap_ratio"] = _gap_ratio(one, found)
    return found


def same_rate(rate: float) -> float:
    """A rate that compares equal to those which differ by rounding alone."""
    return float(f"{rate:.5g}")


def at_rate(measurements: Iterable[Measurement], rate: float) -> list[Measurement]:
    """The measurements at one rate, in their order."""
    return [one for one in measurements if same_rate(one.rate) == same_rate(rate)]


def partner(one: Measurement, others: Iterable[Measurement], plan: str) -> Measurement | None:
    """The measurement of `plan` at the same rate; of several the one with the same k, or as many replicas."""
    found = [other for other in at_rate(others, one.rate) if other.variant.plan == plan]
    found.sort(key=lambda o: (o.variant.k != one.variant.k, o.cells[0].n != one.cells[0].n))
    return found[0] if found else None


def rates(measurements: Iterable[Measurement]) -> list[float]:
    """All rates, ascending."""
    return sorted({same_rate(one.rate) for one in measurements})


def json_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows for JSON: a latency among the failed, infinite, is null; so is what is not known."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return [{key: plain(value) for key, value in row.items()} for row in rows]


def _measurement(
    directory: RunDirectory, variant: Variant, cells: Sequence[Cell], on_cell: Callable[[Cell], object]
) -> Measurement:
    by_repetition, resampled, parts = [], [], []
    for cell in cells:
        on_cell(cell)
        columns = read_cell(directory, cell.id, cell.warm_up)
        # Seeded by the cell: the intervals of one plan do not change when another is added.
        rng = np.random.default_rng(zlib.crc32(cell.id.encode()))
        by_repetition.append(figures(columns.latency))
        resampled.append(draws(columns.latency, rng))
        parts.append(columns)
    table, scattered = np.array(by_repetition), np.median(np.array(resampled), axis=0)
    judged: dict[Outcome, tuple[int, int]] = {outcome: _judged(parts, outcome) for outcome in ANSWERS}
    return Measurement(
        variant=variant,
        title=cells[0].title,
        rate=cells[0].rate,
        load=cells[0].load,
        cells=tuple(cells),
        row=_row(variant, cells, parts, table, scattered, judged),
        by_repetition=table,
        draws=scattered,
        judged=judged,
        send_lateness_p99=max(float(np.quantile(part.send_lateness, 0.99)) for part in parts),
        drift=max(_drift(part.latency) for part in parts),
    )


def _row(
    variant: Variant,
    cells: Sequence[Cell],
    parts: Sequence[Columns],
    table: Floats,
    scattered: Floats,
    judged: Mapping[Outcome, tuple[int, int]],
) -> Row:
    answered = sum(int(np.count_nonzero(part.answered)) for part in parts)
    queries = sum(len(part) for part in parts)
    counts = {outcome: sum(part.count(outcome) for part in parts) for outcome in Outcome}
    middle = dict(zip(FIGURES, np.median(table, axis=0).tolist(), strict=True))
    row: Row = {
        "plan": variant.plan,
        "pool": variant.pool,
        "k": variant.k,
        "rate": cells[0].rate,
        "utilization": _middle(cell.utilization for cell in cells),
        "queries": queries,
        **{name: _ms(value) for name, value in middle.items()},
    }
    for i, name in enumerate(FIGURES):
        row[f"{name}_min"], row[f"{name}_max"] = _ms(table[:, i].min()), _ms(table[:, i].max())
        row[f"{name}_interval"] = [_ms(end) for end in interval(scattered[:, i])]
    row["gap_ms"] = _ms(middle["p999_ms"] - middle["p50_ms"]) if math.isfinite(middle["p50_ms"]) else math.inf
    row["gap_ratio"] = None
    row["reconstructed"] = _share(counts[Outcome.RECONSTRUCTED], answered)
    for outcome, count in counts.items():
        if outcome not in (Outcome.RECONSTRUCTED, Outcome.FAILED) and count:
            row[outcome.value] = _share(count, answered)
    return {
        **row,
        "accuracy": _share(sum(right for right, _ in judged.values()), sum(n for _, n in judged.values())),
        "accuracy_reconstructed": _share(*judged[Outcome.RECONSTRUCTED]),
        "extra_work": _middle(cell.extra_work for cell in cells),
        "network_bytes": _middle(cell.network_bytes for cell in cells),
        "utilization_all": _middle(cell.utilization_all for cell in cells),
        "errors": queries - answered,
        "repetitions": len(cells),
    }


def _gap_ratio(one: Measurement, everything: Sequence[Measurement]) -> float | None:
    other = one if one.variant.plan == EQUAL_RESOURCES else partner(one, everything, EQUAL_RESOURCES)
    if other is None:
        return None
    gap, reference = one.row["gap_ms"], other.row["gap_ms"]
    if not (math.isfinite(gap) and math.isfinite(reference) and reference > 0):
        return None
    return round(gap / reference, 4)


def _drift(latency: Floats) -> float:
    quarter = len(latency) // 4
    if quarter < 25:
        return 1.0
    early, late = np.median(latency[quarter : 2 * quarter]), np.median(latency[-quarter:])
    return float(late / early) if 0 < early < math.inf else 1.0


def _judged(parts: Sequence[Columns], outcome: Outcome) -> tuple[int, int]:
    found = [part.judged(outcome) for part in parts]
    return sum(right for right, _ in found), sum(known for _, known in found)


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(median(known), 6) if known else None


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 5) if whole else None


def _ms(value: float) -> float:
    return round(float(value), 3)
