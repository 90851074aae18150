"""Latency of each query at its planned time, by outcome, with what was done to the system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from load_tests.experiment.columns import OUTCOMES, Columns
from load_tests.experiment.runs import Event
from parm_ray.core import Outcome
from parm_ray.page.svg import Box, Linear, Log, drawing, note, spaced_ticks, tag, text, x_axis, y_axis

Floats = NDArray[np.float64]
WIDTH, PLOT = 1060, 112
LEFT, RIGHT, TOP = 62, 1050, 34
ENDS = {"stall": "resume"}
# More bands or marks than this are a strip above the plot: in it they would be all there is.
BANDS = 12


@dataclass(frozen=True)
class Frame:
    """What all timelines of one rate share.

    end: last planned time, s; low, high: latencies, ms. points: about so many each may draw. marks: so
    many things done to the system each may name; more are drawn without their names.
    """

    end: float
    low: float
    high: float
    points: int
    marks: int


@dataclass(frozen=True)
class Span:
    """From `begin` to `end` seconds; None for what happens in an instant."""

    begin: float
    end: float | None
    kind: str
    what: str


def frame(parts: Sequence[Columns], points: int, marks: int) -> Frame:
    """A frame that holds every query of the parts."""
    finite = [values for part in parts if len(values := part.latency[np.isfinite(part.latency)])]
    low = min((float(values.min()) for values in finite), default=1.0)
    high = max((float(values.max()) for values in finite), default=10.0)
    end = max(float(part.planned[-1]) for part in parts)
    return Frame(end or 1.0, max(low, 1e-3) * 0.85, max(high, low * 2, 2e-3) * 1.8, points, marks)


def spans(events: Sequence[Event], end: float) -> list[Span]:
    """Pair what begins with what ends; an end without a beginning is left out."""
    lasting = kinds(events)
    begins = {_ending(kind): kind for kind in lasting}
    found: list[Span] = []
    begun: dict[tuple[str, str], list[int]] = {}
    for event in sorted(events, key=lambda event: event.t):
        if event.kind in lasting:
            begun.setdefault((event.kind, event.what), []).append(len(found))
            # What has ends elsewhere but not here lasts until the run ends.
            found.append(Span(event.t, end if lasting[event.kind] else None, event.kind, event.what))
        elif waiting := begun.get((begins.get(event.kind, ""), event.what)):
            i = waiting.pop(0)
            found[i] = Span(found[i].begin, event.t, found[i].kind, event.what)
    return found


def kinds(events: Sequence[Event]) -> dict[str, bool]:
    """Kind of what was done -> whether it lasts; ends are not listed by themselves."""
    seen = dict.fromkeys(event.kind for event in sorted(events, key=lambda event: event.t))
    # An end whose beginning is in no event is an end all the same.
    ends = {*ENDS.values(), *(kind for kind in seen if kind.endswith("_end"))}
    return {kind: _ending(kind) in seen for kind in seen if kind not in ends}


def _ending(kind: str) -> str:
    return ENDS.get(kind, f"{kind}_end")


def timeline(
    title: str,
    css: str,
    columns: Columns,
    events: Sequence[Event],
    shared: Frame,
    last: bool,
) -> str:
    """The drawing of one cell. Of many queries the outline is kept, the slow and the rare with it.

    last: whether it is the lowest of those that share the frame, and names the axis for them.
    """
    box = Box(LEFT, TOP, RIGHT, TOP + PLOT)
    x = Linear(0, shared.end, box.left, box.right, about=10)
    y = Log(shared.low, shared.high, box.bottom, box.top)
    heading = tag(
        "g",
        tag("circle", cx=box.left + 5, cy=12, r=5, class_="dot"),
        text(box.left + 17, 16, title, class_="lane"),
        class_=css,
    )
    parts = [
        heading,
        *_bands(spans(events, shared.end), x, box, shared.marks),
        x_axis(x, box, "planned send time, s" if last else ""),
        y_axis(y, box, "", [(t, f"{t:,.10g}") for t in spaced_ticks(y, 18)]),
        text(box.left - 8, box.top - 6, "ms", class_="tick", text_anchor="end"),
        *_points(columns, x, y, box, shared.points),
    ]
    return drawing(WIDTH, box.bottom + (46 if last else 30), f"{title}: latency over time", *parts)


def _points(columns: Columns, x: Linear, y: Log, box: Box, most: int) -> list[str]:
    with np.errstate(divide="ignore"):
        height = np.log(np.maximum(columns.latency, y.low) / y.low) / np.log(y.high / y.low)
    failed = ~columns.answered
    down = np.where(failed, box.top + 4, box.bottom - np.where(failed, 0, height) * (box.bottom - box.top))
    across = box.left + columns.planned / x.high * (box.right - box.left)
    parts = []
    # Originals first: what is drawn later lies on top, and the rare outcomes matter.
    for outcome in Outcome:
        of = columns.outcome == OUTCOMES.index(outcome)
        if of.any():
            share = max(200, int(most * np.count_nonzero(of) / len(of)))
            d = _dots(across[of], down[of], share)
            kind = "failed" if outcome is Outcome.FAILED else "seen"
            parts.append(tag("path", d=d, class_=f"points {kind} outcome-{outcome.value}"))
    return parts


def _dots(across: Floats, down: Floats, most: int) -> str:
    """One dot for all queries that fall on the same few pixels: the outline of the cloud stays as it is."""
    grid = 1.0
    places = _places(across, down, grid)
    while len(places) > most and grid < 20:
        grid *= 1.25
        places = _places(places.real, places.imag, grid)
    return "".join(f"M{p.real:.0f} {p.imag:.0f}h0" for p in places.tolist())


def _places(across: Floats, down: Floats, grid: float) -> NDArray[np.complex128]:
    """The distinct points on a grid of whole multiples of `grid`, each as one complex number."""
    cells: NDArray[np.complex128] = np.round(across / grid).astype(np.complex128)
    cells += 1j * np.round(down / grid)
    return np.unique(cells) * grid


def _bands(found: Sequence[Span], x: Linear, box: Box, marks: int) -> list[str]:
    lasting = [span for span in found if span.end is not None]
    strip = len(lasting) > BANDS
    top = box.top - 8 if strip else box.top
    height = 6 if strip else box.bottom - box.top
    parts = []
    for kind in dict.fromkeys(span.kind for span in lasting):
        ours = [(span.begin, span.end or span.begin, span.what) for span in lasting if span.kind == kind]
        colour = "stalled" if kind == "stall" else "done-to"
        drawn = _merged(ours, gap=x.high / (box.right - box.left)) if strip else ours
        if len(drawn) > marks:
            pieces = [f"M{x(b):.0f} {top + 3:.0f}H{max(x(e), x(b) + 1):.0f}" for b, e, _ in drawn]
            parts.append(tag("path", note(kind), d="".join(pieces), class_=f"strip {colour}"))
            continue
        for begin, end, what in drawn:
            words = note(f"{kind} {what}, {begin:.2f} to {end:.2f} s")
            width = max(min(x(end), box.right) - x(begin), 1.0)
            size = {"x": x(begin), "y": top, "width": width, "height": height}
            parts.append(tag("rect", words, **size, class_=f"band {colour}"))
    moments = [span for span in found if span.end is None]
    foot = box.bottom if len(moments) <= BANDS else box.top
    if len(moments) > marks:
        places = sorted({round(x(span.begin)) for span in moments})
        d = "".join(f"M{at} {box.top - 8:.0f}V{foot:.0f}" for at in places)
        return [*parts, tag("path", d=d, class_="kill")]
    for span in moments:
        words = note(f"{span.kind} {span.what}, {span.begin:.2f} s")
        at = x(span.begin)
        parts.append(tag("line", words, x1=at, x2=at, y1=box.top - 8, y2=foot, class_="kill"))
    return parts


def _merged(found: list[tuple[float, float, str]], gap: float) -> list[tuple[float, float, str]]:
    """Bands that overlap, or are no more than `gap` apart, as one."""
    merged: list[tuple[float, float, str]] = []
    for begin, end, what in sorted(found):
        if merged and begin <= merged[-1][1] + gap:
            first, last, words = merged[-1]
            merged[-1] = (first, max(last, end), words if words == what else "several")
        else:
            merged.append((begin, end, what))
    return merged
