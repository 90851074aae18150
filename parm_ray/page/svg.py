"""Inline SVG: elements, scales, axes. Colours come from the page's style sheet, by class."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple, Protocol


def tag(name: str, *children: str, **attributes: object) -> str:
    """One element. `class_` means class, `_` in a name means `-`; None leaves an attribute out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(children)
    return f"<{name}{given}>{inside}</{name}>" if inside else f"<{name}{given}/>"


def text(x: float, y: float, content: str, **attributes: object) -> str:
    """A text element; `content` is escaped."""
    return tag("text", escape(content), x=x, y=y, **attributes)


def note(words: str) -> str:
    """What a browser shows when somebody points at the element around it; `words` are escaped."""
    return tag("title", escape(words))


def polyline(points: Iterable[tuple[float, float]], **attributes: object) -> str:
    """A line through the points."""
    return tag("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), **attributes)


class Box(NamedTuple):
    """The plot area inside a drawing, in drawing units; y grows downward."""

    left: float
    top: float
    right: float
    bottom: float


class Scale(Protocol):
    """Maps a value to a drawing coordinate and knows where ticks are worth it."""

    def __call__(self, value: float) -> float: ...

    def ticks(self) -> list[float]: ...


class Linear:
    """A linear scale from [low, high] to [start, end]."""

    def __init__(self, low: float, high: float, start: float, end: float, about: int = 8) -> None:
        self.low, self.high, self._start, self._end, self._about = low, high, start, end, about

    def __call__(self, value: float) -> float:
        return self._start + (value - self.low) / (self.high - self.low) * (self._end - self._start)

    def ticks(self) -> list[float]:
        """About `about` round values."""
        raw = (self.high - self.low) / self._about
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


class Log:
    """A logarithmic scale from [low, high], both > 0, to [start, end]. `steps` are the ticks of a decade."""

    def __init__(
        self, low: float, high: float, start: float, end: float, steps: Sequence[float] = (1, 2, 5)
    ) -> None:
        self.low, self.high, self._start, self._end, self._steps = low, high, start, end, steps

    def __call__(self, value: float) -> float:
        position = math.log(value / self.low) / math.log(self.high / self.low)
        return self._start + position * (self._end - self._start)

    def ticks(self) -> list[float]:
        """The steps of each decade that lie inside."""
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        values = [step * 10.0**d for d in decades for step in self._steps]
        return [v for v in values if self.low * (1 - 1e-9) <= v <= self.high * (1 + 1e-9)]


def spaced_ticks(scale: Log, gap: float) -> list[float]:
    """Ticks of a logarithmic scale, as many as fit with `gap` drawing units between neighbours.

    Of a decade 1, 1.5, 2, 3, 5, 7, or fewer; of many decades some; of a small part of one, round values.
    """
    length = abs(scale(scale.high) - scale(scale.low))
    decades = range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)) + 1)
    steps: list[tuple[float, ...]] = [(1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3)]
    choices = [[step * 10.0**d for d in decades for step in some] for some in steps]
    choices += [[10.0**d for d in decades if d % every == 0] for every in (1, 2, 3)]
    if scale.high / scale.low < 4:
        abouts = range(max(2, int(length / gap)), 1, -1)
        choices += [Linear(scale.low, scale.high, 0, length, about).ticks() for about in abouts]
    best: list[float] = []
    for choice in choices:
        inside = [v for v in choice if scale.low * (1 - 1e-9) <= v <= scale.high * (1 + 1e-9)]
        places = [scale(v) for v in inside]
        apart = min((abs(b - a) for a, b in pairwise(places)), default=math.inf)
        if apart >= gap and len(inside) > len(best):
            best = inside
    return best


def x_axis(
    scale: Scale, box: Box, title: str, form: str = "{:g}", ticks: Sequence[float] | None = None
) -> str:
    """Tick labels and vertical grid lines below a plot; `ticks` instead of the scale's own."""
    parts = []
    for value in scale.ticks() if ticks is None else ticks:
        x = scale(value)
        parts.append(tag("line", x1=x, x2=x, y1=box.top, y2=box.bottom, class_="grid"))
        parts.append(text(x, box.bottom + 18, form.format(value), class_="tick", text_anchor="middle"))
    parts.append(
        text((box.left + box.right) / 2, box.bottom + 38, title, class_="axis", text_anchor="middle")
    )
    return tag("g", *parts)


def y_axis(scale: Scale, box: Box, title: str, labels: Iterable[tuple[float, str]]) -> str:
    """Labelled horizontal grid lines, and the title above the axis."""
    parts = []
    for value, label in labels:
        y = scale(value)
        parts.append(tag("line", x1=box.left, x2=box.right, y1=y, y2=y, class_="grid"))
        parts.append(text(box.left - 8, y + 4, label, class_="tick", text_anchor="end"))
    parts.append(text(box.left - 8, box.top - 12, title, class_="axis", text_anchor="start"))
    return tag("g", *parts)


def drawing(width: float, height: float, label: str, *parts: str) -> str:
    """A drawing that scales with the page; `label` is what a screen reader says."""
    return tag(
        "svg",
        *parts,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=label,
        xmlns="http://www.w3.org/2000/svg",
    )


def _number(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
