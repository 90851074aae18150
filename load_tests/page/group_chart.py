"""Timelines of single groups: who was asked when, who answered late, and what stood in for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parm_ray.page.svg import Box, Linear, drawing, tag, text

WIDTH, LANE = 460, 32
LABELS = 62


@dataclass
class Call:
    """One lane: a slot's batch or a parity query. Times in ms from the group's first dispatch."""

    begin: float
    end: float | None = None
    failed: bool = False


@dataclass
class Timeline:
    """One group as the server traced it. `resolved`: slot -> (time, outcome)."""

    group: int
    slots: dict[int, Call] = field(default_factory=dict)
    parities: dict[int, Call] = field(default_factory=dict)
    resolved: dict[int, tuple[float, str]] = field(default_factory=dict)

    @property
    def reconstructed(self) -> tuple[int, ...]:
        """Slots whose answer was a reconstruction."""
        return tuple(sorted(s for s, (_, outcome) in self.resolved.items() if outcome == "reconstructed"))

    @property
    def worst_gain(self) -> float:
        """Milliseconds between a reconstruction and the original it stood in for; 0 if none came."""
        gains = [
            end - self.resolved[s][0]
            for s in self.reconstructed
            if s in self.slots and (end := self.slots[s].end) is not None
        ]
        return max(gains, default=0.0)


def timeline(trace: Mapping[str, Any]) -> Timeline | None:
    """Read one entry of the server's `groups`; None if it has no dispatch. Unknown kinds are ignored."""
    events = trace["events"]
    began = [event["t"] for event in events if event["kind"] == "dispatched"]
    if not began:
        return None
    found = Timeline(trace["group"])
    for event in events:
        t, kind, index = (event["t"] - min(began)) * 1e3, event["kind"], event["index"]
        lanes = found.parities if kind.startswith("parity_") else found.slots
        match kind.removeprefix("parity_"):
            case "dispatched":
                # A second dispatch is another attempt: the lane begins at the first.
                lanes.setdefault(index, Call(t))
            case "answered" | "failed" as ending if index in lanes:
                lanes[index].end, lanes[index].failed = t, ending == "failed"
            case "resolved":
                found.resolved.setdefault(index, (t, event.get("outcome", "original")))
    return found


def choose(traces: Sequence[Mapping[str, Any]], n: int) -> list[Timeline]:
    """Up to n groups with reconstructions, of different kinds first, the greatest gain first within each."""
    lines = [line for trace in traces if (line := timeline(trace)) is not None and line.reconstructed]
    lines.sort(key=lambda line: -line.worst_gain)
    seen: dict[tuple[int, ...], int] = {}
    ranked = []
    for line in lines:
        seen[line.reconstructed] = seen.get(line.reconstructed, 0) + 1
        ranked.append((seen[line.reconstructed], line))
    return [line for _, line in sorted(ranked, key=lambda pair: pair[0])[:n]]


def group_chart(line: Timeline, limit_ms: float = 640.0) -> str:
    """One drawing. Bars that go on past `limit_ms` are cut there and say how long they took."""
    lanes: list[tuple[str, Call, int | None]] = [
        (f"slot {i}", call, i) for i, call in sorted(line.slots.items())
    ]
    lanes += [("parity", call, None) for _, call in sorted(line.parities.items())]
    height = 26 + LANE * len(lanes) + 24
    box = Box(LABELS, 26, WIDTH - 14, 26 + LANE * len(lanes))
    ends = [call.end for _, call, _ in lanes if call.end is not None]
    ends += [t for t, _ in line.resolved.values()]
    x = Linear(0, min(max([*ends, 10.0]) * 1.05, limit_ms), box.left, box.right, about=5)
    parts = [text(0, 14, f"group {line.group}", class_="lane")]
    for value in x.ticks():
        parts.append(tag("line", x1=x(value), x2=x(value), y1=box.top, y2=box.bottom, class_="grid"))
        label = f"{value:g} ms" if value == x.ticks()[-1] else f"{value:g}"
        parts.append(text(x(value), box.bottom + 17, label, class_="tick", text_anchor="middle"))
    parity_ends = [
        (call.end, n) for n, (_, call, i) in enumerate(lanes) if i is None and call.end is not None
    ]
    for n, (name, call, slot) in enumerate(lanes):
        middle = box.top + LANE * (n + 0.5)
        parts.append(text(LABELS - 8, middle + 4, name, class_="lane", text_anchor="end"))
        answer = None if slot is None else line.resolved.get(slot)
        parts.append(_bar(call, answer, middle, x, "parity" if slot is None else "slot"))
        if answer is not None and answer[0] <= x.high:
            parts.append(_answer(answer, middle, x, [n for _, n in parity_ends], box))
    return drawing(WIDTH, height, f"Timeline of group {line.group}", *parts)


def _bar(call: Call, answer: tuple[float, str] | None, middle: float, x: Linear, kind: str) -> str:
    end = x.high if call.end is None else min(call.end, x.high)
    parts = []
    useful = end
    if answer is not None and answer[1] == "reconstructed":
        useful = min(max(answer[0], call.begin), end)
        parts.append(_rect(useful, end, middle, x, "bar late"))
    parts.insert(0, _rect(call.begin, useful, middle, x, f"bar {kind}{' died' if call.failed else ''}"))
    if call.end is None or call.end > x.high:
        words = "no answer" if call.end is None else f"answers at {call.end:.0f} ms"
        parts.append(text(x(end), middle - 10, words, class_="note", text_anchor="end"))
    return tag("g", *parts)


def _rect(begin: float, end: float, middle: float, x: Linear, kind: str) -> str:
    width = max(x(end) - x(begin), 0.5)
    return tag("rect", x=x(begin), y=middle - 7, width=width, height=14, rx=3, class_=kind)


def _answer(
    answer: tuple[float, str], middle: float, x: Linear, parity_lanes: Sequence[int], box: Box
) -> str:
    t, outcome = answer
    at = x(t)
    parts = []
    if outcome == "reconstructed" and parity_lanes:
        low = box.top + LANE * (parity_lanes[0] + 0.5)
        parts.append(tag("line", x1=at, x2=at, y1=low, y2=middle, class_="decode"))
    if outcome == "reconstructed":
        diamond = f"M{at:.1f} {middle - 8:.1f}l8 8 -8 8 -8 -8z"
        parts.append(
            tag("path", tag("title", f"reconstructed at {t:.0f} ms"), d=diamond, class_="mark stand-in")
        )
    else:
        note = tag("title", f"{outcome} at {t:.0f} ms")
        parts.append(tag("circle", note, cx=at, cy=middle, r=5, class_=f"mark {outcome}"))
    return tag("g", *parts)
