"""Reasons to distrust a run's figures, found in its records and cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from load_tests.client import LAG_LIMIT_S
from load_tests.experiment.rows import Measurement, Variant, rates, same_rate
from load_tests.experiment.runs import Run
from load_tests.experiment.titles import listed, per_second

# Above this share of all cores, replicas wait for the CPU and latency measures the machine.
CPU_LIMIT = 0.9
# A median that has grown by this factor from the second quarter to the last is a queue that grows.
DRIFT_LIMIT = 1.5
# A percentile with fewer queries beyond it than this says what happened, not what will.
TAIL_QUERIES = 10


@dataclass(frozen=True)
class Cautions:
    """warnings: the figures may mean nothing. notes: how far they carry. Sentences, all of them."""

    warnings: tuple[str, ...]
    notes: tuple[str, ...]


def cautions(run: Run, measurements: Sequence[Measurement], titles: Mapping[Variant, str]) -> Cautions:
    """The run's own warnings, and what its measurements show."""

    def where(holds: Callable[[Measurement], bool]) -> str:
        places: dict[Variant, list[str]] = {}
        for one in measurements:
            if holds(one):
                places.setdefault(one.variant, []).append(per_second(one.rate))
        return listed([f"{titles[v]} ({listed(at, 4)} queries/s)" for v, at in places.items()], 5)

    warnings, notes = list(run.warnings), []
    late = where(lambda one: one.send_lateness_p99 > LAG_LIMIT_S * 1e3)
    if late:
        worst = max(one.send_lateness_p99 for one in measurements)
        warnings.append(
            f"The load generator fell behind its plan (99th percentile up to {worst:.0f} ms, limit "
            f"{LAG_LIMIT_S * 1e3:.0f} ms), so it measured itself: {late}."
        )
    busy = where(lambda one: any((cell.cpu_busy or 0) > CPU_LIMIT for cell in one.cells))
    if busy:
        warnings.append(
            f"The machine's cores were more than {100 * CPU_LIMIT:.0f} % busy, so latency is partly the "
            f"wait for a CPU: {busy}."
        )
    failed = where(lambda one: one.row["errors"] > 0)
    if failed:
        total, of = (
            sum(one.row["errors"] for one in measurements),
            sum(one.row["queries"] for one in measurements),
        )
        warnings.append(f"{total:,} of {of:,} queries failed and count as never answered: {failed}.")
    grows = where(lambda one: one.drift > DRIFT_LIMIT)
    if grows:
        warnings.append(
            "Latency still rose when the run ended (median of the last quarter against the second), so the "
            f"figures depend on how long it ran: {grows}."
        )
    few = [one for one in measurements if one.tail_queries(0.999) < TAIL_QUERIES]
    if few:
        fewest = min(one.tail_queries(0.999) for one in few)
        notes.append(
            f"In {len(few)} of {len(measurements)} rows p99.9 rests on fewer than {TAIL_QUERIES} queries of "
            f"a repetition (on {math.floor(fewest)} at the fewest)."
        )
    once = [one for one in measurements if one.row["repetitions"] == 1]
    if once:
        many = "Every plan" if len(once) == len(measurements) else f"In {len(once)} rows a plan"
        notes.append(
            f"{many} ran once at a rate: intervals and comparisons say what the queries of one run can tell, "
            "and nothing about how another run would differ."
        )
    notes += _gaps(measurements, titles)
    return Cautions(tuple(warnings), tuple(notes))


def _gaps(measurements: Sequence[Measurement], titles: Mapping[Variant, str]) -> list[str]:
    everywhere = set(rates(measurements))
    lacking = []
    for variant, title in titles.items():
        there = {same_rate(one.rate) for one in measurements if one.variant == variant}
        if missing := sorted(everywhere - there):
            lacking.append(f"{title} ({listed([per_second(rate) for rate in missing], 4)} queries/s)")
    return [f"Not measured at every rate: {listed(lacking, 5)} missing."] if lacking else []
