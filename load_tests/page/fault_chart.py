"""The fault phase: every query at its planned time, its latency, its outcome."""

from __future__ import annotations

from collections.abc import Sequence

from load_tests.faults import FaultEvent
from load_tests.records import ClientRecord
from parm_ray.core import Outcome
from parm_ray.page.svg import Box, Linear, Log, drawing, tag, text, x_axis, y_axis

WIDTH, HEIGHT = 960, 400
BOX = Box(70, 50, 940, 345)
NAMES = {
    Outcome.ORIGINAL: "original",
    Outcome.COPY: "copy",
    Outcome.RECONSTRUCTED: "reconstructed",
    Outcome.BACKUP: "backup model",
    Outcome.DEFAULT: "default answer",
    Outcome.FAILED: "failed",
}


def fault_chart(records: Sequence[ClientRecord], events: Sequence[FaultEvent]) -> str:
    """A point per query and a mark per fault. Failed queries stand as crosses on the upper edge."""
    if not records:
        return ""
    end = max(record.planned for record in records)
    answered = [record.latency_s * 1e3 for record in records if record.answered] or [10.0]
    x = Linear(0, end, BOX.left, BOX.right, about=10)
    y = Log(min(answered) * 0.8, max(*answered, 500) * 1.3, BOX.bottom, BOX.top, steps=(1, 2, 5))
    parts = [
        *_fault_marks(events, x, end),
        x_axis(x, BOX, "planned send time, s"),
        y_axis(y, BOX, "latency, ms", [(t, f"{t:g}") for t in y.ticks()]),
    ]
    # Originals first: what is drawn later lies on top, and the rare outcomes matter.
    for record in sorted(records, key=lambda r: list(NAMES).index(r.outcome)):
        parts.append(_point(record, x(record.planned), y))
    counts = {outcome: sum(r.outcome is outcome for r in records) for outcome in NAMES}
    legend = "".join(
        f'<li><i class="swatch round outcome-{outcome.value}"></i>{NAMES[outcome]} <b>{n}</b></li>'
        for outcome, n in counts.items()
        if n or outcome is Outcome.FAILED
    )
    svg = drawing(WIDTH, HEIGHT, "Latency over time while replicas stall and die", *parts)
    return f'<ul class="legend">{legend}</ul>{svg}'


def _point(record: ClientRecord, x: float, y: Log) -> str:
    kind = f"outcome-{record.outcome.value}"
    if not record.answered:
        top = BOX.top + 8
        cross = f"M{x - 5:.1f} {top - 5}l10 10m0 -10l-10 10"
        return tag(
            "path", tag("title", f"t = {record.planned:.2f} s: failed"), d=cross, class_=f"cross {kind}"
        )
    latency = record.latency_s * 1e3
    note = f"t = {record.planned:.2f} s: {latency:.0f} ms, {NAMES[record.outcome]}"
    radius = 2.2 if record.outcome is Outcome.ORIGINAL else 4
    return tag("circle", tag("title", note), cx=x, cy=y(latency), r=radius, class_=f"point {kind}")


def _fault_marks(events: Sequence[FaultEvent], x: Linear, end: float) -> list[str]:
    parts = []
    for event in events:
        at = x(event.t)
        if event.kind == "stall":
            until = min((e.t for e in events if e.kind == "resume" and e.pid == event.pid), default=end)
            width = x(min(until, end)) - at
            parts.append(
                tag("rect", x=at, y=BOX.top, width=width, height=BOX.bottom - BOX.top, class_="stall")
            )
            parts.append(
                text(at + 6, BOX.top - 8, f"one replica stopped, {until - event.t:.0f} s", class_="fault")
            )
        elif event.kind == "kill":
            parts.append(tag("line", x1=at, x2=at, y1=BOX.top - 4, y2=BOX.bottom, class_="kill"))
            parts.append(text(at + 6, BOX.top - 8, "one replica killed", class_="fault"))
    return parts
