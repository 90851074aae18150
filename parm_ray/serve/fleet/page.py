"""A fleet's plan as one self-contained HTML page: the flow map, the reasons, what changed lately."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

from parm_ray.page.document import filled
from parm_ray.routing.fleet.snapshot import Snapshot, diff

# Of the drawing, in its own units: a node's height and distance, and how wide the widest flow is.
_ROW, _BOX, _WIDTH, _WIDEST = 76, 52, 1000, 26
_LEFT, _RIGHT = 210, 790

_CHANGES = 8


def render(history: Sequence[Snapshot]) -> str:
    """Return the page of the last snapshot; the ones before say what changed. Raises ValueError for none."""
    if not history:
        raise ValueError("history: expected a snapshot, got none")
    last = history[-1]
    return filled(
        Path(__file__).parent / "page.html",
        version=last.version,
        mean=f"{1e3 * last.mean_s:.1f} ms" if math.isfinite(last.mean_s) else "without bound",
        utilization=f"{100 * last.utilization:.0f} %",
        shed=f"{last.shed.sum():.3g}/s",
        map=_map(last),
        binding=_list(last.binding) or "<p>No constraint holds the plan up.</p>",
        reasons="".join(f"<h3>{escape(demand)}</h3>{_list(last.explain(demand))}" for demand in last.demands),
        ages=_list(
            f"{name}: {'never heard, as declared' if age is None else f'{age:.1f} s old'}"
            for name, age in last.ages_s.items()
        ),
        changes="".join(_change(a, b) for a, b in reversed(list(pairwise(history))))
        or "<p>Nothing changed in the plans that are kept.</p>",
    )


def _change(old: Snapshot, new: Snapshot) -> str:
    lines = diff(old, new)
    if not lines:
        return ""
    more = [f"and {len(lines) - _CHANGES} more"] if len(lines) > _CHANGES else []
    return f"<h3>version {new.version}</h3>{_list([*lines[:_CHANGES], *more])}"


def _list(lines: object) -> str:
    items = "".join(f"<li>{escape(str(line))}</li>" for line in lines)  # type: ignore[attr-defined]
    return f"<ul>{items}</ul>" if items else ""


def _map(snapshot: Snapshot) -> str:
    """Demands on the left, engines on the right, and between them what flows, as wide as it is much."""
    rows, columns = len(snapshot.demands), len(snapshot.engines)
    height = _ROW * max(rows, columns) + 20
    flows = snapshot.weights * (snapshot.rates - snapshot.shed)[:, None]
    most = float(flows.max(initial=0.0)) or 1.0

    def at(i: int, n: int) -> float:
        return height / 2 + (i - (n - 1) / 2) * _ROW

    shapes = []
    for i, demand in enumerate(snapshot.demands):
        for j, engine in enumerate(snapshot.engines):
            if flows[i, j] <= 1e-9 * most:
                continue
            y1, y2, middle = at(i, rows), at(j, columns), (_LEFT + _RIGHT) / 2
            width = max(1.0, _WIDEST * float(flows[i, j]) / most)
            title = f"{demand} to {engine}: {flows[i, j]:.4g}/s, {100 * snapshot.weights[i, j]:.1f} %"
            shapes.append(
                f'<path class="flow" d="M{_LEFT},{y1:g} C{middle:g},{y1:g} {middle:g},{y2:g} '
                f'{_RIGHT},{y2:g}" '
                f'stroke-width="{width:.1f}"><title>{escape(title)}</title></path>'
            )
    for i, demand in enumerate(snapshot.demands):
        shed = f", {snapshot.shed[i]:.3g} shed" if snapshot.shed[i] > 1e-9 else ""
        shapes.append(_box(0, at(i, rows), demand, f"{snapshot.rates[i]:.4g}/s{shed}", bool(shed)))
    for j, engine in enumerate(snapshot.engines):
        left = snapshot.penalties.get(engine, (1.0, ""))[0]
        note = f"{snapshot.loads[j]:.4g} of {snapshot.capacities[j]:.4g}/s"
        note += f", penalty {100 * left:.0f} %" if left < 1 else ""
        dead = snapshot.capacities[j] <= 0
        part = 0.0 if dead else float(snapshot.loads[j] / snapshot.capacities[j])
        shapes.append(_box(_RIGHT, at(j, columns), engine, "dead" if dead else note, dead or left < 1, part))
    return f'<svg viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="flows">{"".join(shapes)}</svg>'


def _box(x: float, y: float, name: str, note: str, bad: bool, filled: float = 0.0) -> str:
    top, kind = y - _BOX / 2, "box bad" if bad else "box"
    shown = name if len(name) <= 26 else name[:25] + "…"
    return (
        f'<rect class="{kind}" x="{x:g}" y="{top:g}" width="{_LEFT}" height="{_BOX}" rx="8"/>'
        f'<rect class="load" x="{x + 12:g}" y="{top + _BOX - 8:g}" '
        f'width="{(_LEFT - 24) * min(1.0, filled):.1f}" height="3" rx="1.5"/>'
        f'<text class="name" x="{x + 12:g}" y="{top + 21:g}">{escape(shown)}</text>'
        f'<text x="{x + 12:g}" y="{top + 38:g}">{escape(note)}</text>'
    )
