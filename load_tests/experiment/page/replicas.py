"""Each replica of each plan: how busy it was, and how many calls it answered."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from load_tests.experiment.runs import Replica
from parm_ray.page.svg import Box, Linear, drawing, note, tag, text

WIDTH, HEIGHT = 520, 206
LEFT, RIGHT = 44, 512
BUSY, CALLS = Box(LEFT, 32, RIGHT, 102), Box(LEFT, 138, RIGHT, 180)


def replica_chart(title: str, css: str, replicas: Sequence[Replica]) -> str:
    """Bars in the order of pools and names: busy share above, calls below."""
    pools = list(dict.fromkeys(replica.pool for replica in replicas))
    ordered = sorted(replicas, key=lambda r: (pools.index(r.pool), _natural(r.name)))
    gap = 14
    pitch = (RIGHT - LEFT - 6 - gap * (len(pools) - 1)) / len(ordered)
    most_busy = max(1.0, *(replica.busy for replica in ordered))
    busy = Linear(0, most_busy, BUSY.bottom, BUSY.top)
    calls = Linear(0, max(1, *(replica.calls for replica in ordered)), CALLS.bottom, CALLS.top)
    parts = [
        *_level(busy, BUSY, ((0, "0 %"), (0.5, "50 %"), (1, "100 %"))),
        *_level(calls, CALLS, ((0, "0"), (calls.high, f"{calls.high:,.0f}"))),
        text(LEFT, 21, "busy share of each replica", class_="note"),
        text(LEFT, CALLS.top - 9, "calls answered", class_="note"),
    ]
    bars, x = [], LEFT + 6.0
    for pool in pools:
        ours = [replica for replica in ordered if replica.pool == pool]
        begin = x
        for replica in ours:
            bars.append(_bars(replica, x, pitch, busy, calls, first=pool == pools[0]))
            x += pitch
        label = f"{pool} × {len(ours)}"
        parts.append(text((begin + x) / 2, HEIGHT - 8, label, class_="tick", text_anchor="middle"))
        x += gap
    group = tag("g", *bars, class_=css)
    return (
        f'<h3 class="plan"><i class="swatch round {css}"></i>{escape(title)}</h3>'
        f"{drawing(WIDTH, HEIGHT, f'{title}: replicas', *parts, group)}"
    )


def _level(scale: Linear, box: Box, labels: Sequence[tuple[float, str]]) -> list[str]:
    parts = []
    for value, label in labels:
        y = scale(value)
        parts.append(tag("line", x1=box.left, x2=box.right, y1=y, y2=y, class_="grid"))
        parts.append(text(box.left - 6, y + 4, label, class_="note", text_anchor="end"))
    return parts


def _bars(replica: Replica, x: float, pitch: float, busy: Linear, calls: Linear, first: bool) -> str:
    width = max(0.8, min(pitch * 0.76, 26))
    left = x + (pitch - width) / 2
    high, low = busy(replica.busy), calls(replica.calls)
    words = f"{replica.name} on {replica.node}: {100 * replica.busy:.0f} % busy, {replica.calls:,} calls"
    return tag(
        "g",
        note(words),
        tag("rect", x=left, y=high, width=width, height=BUSY.bottom - high),
        tag("rect", x=left, y=low, width=width, height=CALLS.bottom - low),
        class_="bars" if first else "bars other",
    )


def _natural(name: str) -> tuple[int, str]:
    digits = "".join(c for c in name if c.isdigit())
    return (int(digits) if digits and len(digits) < 10 else 0, name)
