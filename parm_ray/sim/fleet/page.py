"""A simulated fleet as one self-contained HTML page: weights, latency and second calls over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parm_ray.page.document import filled
from parm_ray.sim.fleet.fluid import FluidResult
from parm_ray.sim.fleet.fluid_report import fluid_phases
from parm_ray.sim.fleet.report import phases
from parm_ray.sim.fleet.run import FleetResult
from parm_ray.sim.fleet.setting import FleetRun

# Of a chart, in its own units.
_WIDTH, _HEIGHT, _LEFT = 1000, 190, 76

# More than so many engines are not told apart by colour: the rest are grey together.
COLOURS = ("#2f6fd6", "#0b8f6b", "#d58a00", "#8b5cc7", "#d1332e", "#1798a8", "#9a6b2f", "#c2498f")
REST = "#8b939b"

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class _Latencies:
    """How latencies are shown: names of the columns, and the lines with their colours and what they are."""

    columns: tuple[tuple[str, str], ...]
    lines: Mapping[str, Points]
    words: dict[str, str]
    rows: list[dict[str, Any]]


def render(run: FleetRun, result: FleetResult | FluidResult, title: str) -> str:
    """Return the page of one run. Raises ValueError for one without an interval."""
    if not result.intervals:
        raise ValueError("intervals: expected one or more, got none: the run is shorter than its interval")
    marks = [(change.at_s, f"{change.kind} {change.name} {change.value:g}") for change in run.changes]
    names = [engine.name for engine in run.fleet.engines]
    shown = _shown(run, result)
    colours = dict(zip(shown.lines, (COLOURS[1], COLOURS[4]), strict=True))
    return filled(
        Path(__file__).parent / "page.html",
        title=escape(title),
        lead=f"{sum(row['requests'] for row in shown.rows)} requests in {run.duration_s:g} virtual seconds, "
        f"policy {run.control.policy}, seed {run.seed}.",
        legend=_legend(names),
        latencies="".join(
            f'<span><i style="background:{colours[name]}"></i>{words}</span>'
            for name, words in shown.words.items()
        ),
        columns="".join(f"<th>{words}</th>" for _, words in shown.columns),
        shares=_shares(run, result, marks),
        latency=_lines(run, marks, shown.lines, " ms", colours),
        penalties=_lines(run, marks, _penalties(result, names), "", _colours(names)),
        sent=_lines(
            run,
            marks,
            {"calls per request": [(i.at_s, i.sent / i.offered) for i in result.intervals if i.offered]},
            "",
            {"calls per request": COLOURS[0]},
        ),
        table=_table(shown),
    )


def _shown(run: FleetRun, result: FleetResult | FluidResult) -> _Latencies:
    if isinstance(result, FleetResult):
        return _Latencies(
            (("p50_ms", "p50 ms"), ("p99_ms", "p99 ms")),
            _latencies(run, result),
            {"p50": "p50", "p99": "p99, of the requests that came in an interval"},
            phases(run, result),
        )
    lines = {
        "mean": [(one.at_s, 1e3 * one.mean_s) for one in result.intervals],
        "worst": [(one.at_s, 1e3 * one.worst_s) for one in result.intervals],
    }
    words = {"mean": "mean, of fluids", "worst": "of the slowest way that 1 % of the requests took"}
    return _Latencies(
        (("mean_ms", "mean ms"), ("worst_ms", "slowest way ms")), lines, words, fluid_phases(run, result)
    )


def _colours(names: Sequence[str]) -> dict[str, str]:
    return {name: COLOURS[j] if j < len(COLOURS) else REST for j, name in enumerate(names)}


def _legend(names: Sequence[str]) -> str:
    shown = list(_colours(names).items())[: len(COLOURS)]
    shown += [(f"{len(names) - len(COLOURS)} more", REST)] if len(names) > len(COLOURS) else []
    return "".join(
        f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for name, colour in shown
    )


def _shares(run: FleetRun, result: FleetResult | FluidResult, marks: Sequence[tuple[float, str]]) -> str:
    """Bands of each engine's share of the calls, on top of each other."""
    calls = np.array([interval.calls for interval in result.intervals], dtype=np.float64)
    sums = calls.sum(axis=1, keepdims=True)
    tops = np.cumsum(np.divide(calls, sums, out=np.zeros_like(calls), where=sums > 0), axis=1)
    at = [_x(run, interval.at_s) for interval in result.intervals]
    below: NDArray[np.float64] = np.zeros(len(at))
    bands = []
    for (name, colour), top in zip(
        _colours([e.name for e in run.fleet.engines]).items(), tops.T, strict=True
    ):
        edge = [f"{x:.1f},{_HEIGHT * (1 - y):.1f}" for x, y in zip(at, top.tolist(), strict=True)]
        back = [f"{x:.1f},{_HEIGHT * (1 - y):.1f}" for x, y in zip(at, below.tolist(), strict=True)]
        bands.append(
            f'<polygon points="{" ".join([*edge, *reversed(back)])}" fill="{colour}" fill-opacity="0.75">'
            f"<title>{escape(name)}</title></polygon>"
        )
        below = top
    return _chart(run, marks, "".join(bands), 1.0, "")


def _lines(
    run: FleetRun,
    marks: Sequence[tuple[float, str]],
    lines: Mapping[str, Points],
    unit: str,
    colours: dict[str, str],
) -> str:
    most = max((value for points in lines.values() for _, value in points), default=1.0) or 1.0
    shapes = []
    for name, points in lines.items():
        spots = " ".join(f"{_x(run, at):.1f},{_HEIGHT * (1 - value / most):.1f}" for at, value in points)
        shapes.append(
            f'<polyline class="line" points="{spots}" stroke="{colours[name]}">'
            f"<title>{escape(name)}</title></polyline>"
        )
    return _chart(run, marks, "".join(shapes), most, unit)


def _chart(run: FleetRun, marks: Sequence[tuple[float, str]], inside: str, most: float, unit: str) -> str:
    """A frame with its axis, what changed as upright lines, and what is drawn inside."""
    axis = "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:g}" y2="{y:g}"/>'
        f'<text x="{_LEFT - 8}" y="{y + 4:g}" text-anchor="end">{_number(most * part)}{unit}</text>'
        for part in (0.0, 0.5, 1.0)
        for y in [_HEIGHT * (1 - part)]
    )
    times = "".join(
        f'<text x="{_x(run, at):.1f}" y="{_HEIGHT + 18}" text-anchor="middle">{at:g} s</text>'
        for at in np.linspace(0, run.duration_s, 6).round(1).tolist()
    )
    upright = "".join(
        f'<line class="mark" x1="{_x(run, at):.1f}" x2="{_x(run, at):.1f}" y1="-4" y2="{_HEIGHT}">'
        f"<title>{escape(what)}</title></line>"
        for at, what in marks
    )
    box = f"0 -8 {_WIDTH + 16} {_HEIGHT + 32}"
    return f'<svg viewBox="{box}" role="img">{axis}{inside}{upright}{times}</svg>'


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _x(run: FleetRun, at_s: float) -> float:
    return _LEFT + (_WIDTH - _LEFT) * at_s / run.duration_s


def _latencies(run: FleetRun, result: FleetResult) -> dict[str, Points]:
    """Quantiles of the requests that came within each interval, milliseconds."""
    edges = [0.0, *(interval.at_s for interval in result.intervals)]
    ok = [request for request in result.requests if request.outcome == "ok"]
    spots = np.searchsorted(edges, [request.planned for request in ok], side="right")
    times = np.array([1e3 * (request.done - request.planned) for request in ok])
    found: dict[str, Points] = {}
    for name, q in (("p50", 0.5), ("p99", 0.99)):
        within = ((at, times[spots == n]) for n, at in enumerate(edges) if n)
        found[name] = [(at, float(np.quantile(some, q))) for at, some in within if len(some)]
    return found


def _penalties(result: FleetResult | FluidResult, names: Sequence[str]) -> dict[str, Points]:
    return {name: [(i.at_s, i.penalties.get(name, 1.0)) for i in result.intervals] for name in names}


def _table(latencies: _Latencies) -> str:
    def shown(value: float | None, form: str) -> str:
        return "-" if value is None else form.format(value)

    return "".join(
        f"<tr><td>{row['from_s']:g}-{row['to_s']:g} s</td><td>{escape(', '.join(row['changes']))}</td>"
        f"<td>{row['requests']}</td>"
        + "".join(f"<td>{shown(row[name], '{:.0f}')}</td>" for name, _ in latencies.columns)
        + f"<td>{row['answered_per_s']:.1f}</td>"
        f"<td>{100 * row['shed']:.2f} %</td><td>{100 * row['failed']:.2f} %</td>"
        f"<td>{shown(row['sent'], '{:.3f}')}</td></tr>"
        for row in latencies.rows
    )
