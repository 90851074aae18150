"""Advice as one self-contained page: tail curves, cost against latency, advice against load, all plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from parm_ray.advisor.advice import Advice, Ranked
from parm_ray.page.document import filled
from parm_ray.page.svg import (
    Box,
    Linear,
    Log,
    Scale,
    drawing,
    note,
    polyline,
    spaced_ticks,
    tag,
    text,
    x_axis,
    y_axis,
)

WIDTH, HEIGHT = 960, 400
BOX = Box(70, 36, 880, 345)
LEVELS = ((0.5, "p50"), (0.1, "p90"), (0.01, "p99"), (0.001, "p99.9"))

# Curves and lines: no redundancy is grey, the advised plan first of the colours.
COLOURS = ("#0b8f6b", "#2f6fd6", "#d58a00", "#8b5cc7", "#d1332e", "#1798a8")
NONE = "#8b939b"

# Plans with a tail curve of their own, beside no redundancy.
CURVES = 4


def render(advice: Advice) -> str:
    """Return the page."""
    workload, best = advice.workload, advice.best
    tails = list(_curves(advice))
    return filled(
        Path(__file__).parent / "page.html",
        title=escape(f"Run: {best.name}"),
        lead=escape(f"{best.reason[0].upper()}{best.reason[1:]}."),
        setting=escape(
            f"{workload.rate:.4g} queries/s on {workload.replicas} replicas, busy "
            f"{workload.utilisation:.0%} of the time without redundancy. Objective: {advice.objective}."
        ),
        notes="".join(f"<li>{escape(words)}.</li>" for words in advice.warnings)
        or "<li>Nothing out of the ordinary.</li>",
        legend=_legend({one.name: colour for one, colour in tails}),
        tails=_tails(tails),
        frontier=_frontier(advice, {one.name: colour for one, colour in tails}),
        load_legend=_legend(_load_colours(advice)),
        by_load=_by_load(advice),
        changes=escape(_changes(advice)),
        objective=escape(str(advice.objective)),
        table="".join(_row(one, one is best) for one in advice.ranked),
        refused="".join(
            f"<li>{escape(one.candidate.name)}: {escape(one.refused)}.</li>" for one in advice.unsimulated
        ),
        evidence="".join(f"<li>{escape(words)}</li>" for words in _evidence(advice)),
    )


def _curves(advice: Advice) -> Iterator[tuple[Ranked, str]]:
    """The plans that are drawn, one of each make, and their colours."""
    yield advice.none, NONE
    makes: set[tuple[str, bool, bool]] = set()
    colours = iter(COLOURS)
    for one in advice.ranked:
        make = (one.plan.kind, one.candidate.shared, one.plan.hedge is not None)
        if one.plan.kind != "none" and make not in makes and len(makes) < CURVES and not one.refused:
            makes.add(make)
            yield one, next(colours)


def _legend(colours: dict[str, str]) -> str:
    return "".join(
        f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for name, colour in colours.items()
    )


def _tails(plans: Sequence[tuple[Ranked, str]]) -> str:
    points = [point for one, _ in plans for point in one.tail]
    # A logarithm has no place for calls that took no time at all.
    x = Log(
        0.92e3 * min(t for t, _ in points if t > 0), 1.15e3 * max(t for t, _ in points), BOX.left, BOX.right
    )
    y = Log(0.8 * min(share for _, share in points), 1.0, BOX.bottom, BOX.top, steps=(1,))
    parts = [
        x_axis(x, BOX, "latency, ms", ticks=spaced_ticks(x, 60)),
        y_axis(y, BOX, "share of queries that are later", [(t, f"{100 * t:g} %") for t in y.ticks()]),
        *(text(BOX.right + 8, y(s) + 4, name, class_="tick") for s, name in LEVELS if s >= y.low),
    ]
    for one, colour in plans:
        spots = [(x(1e3 * seconds), y(share)) for seconds, share in one.tail if seconds > 0]
        parts.append(tag("g", note(one.name), polyline(spots, class_="line", stroke=colour)))
    return drawing(WIDTH, HEIGHT, "Tail of the latency by plan", *parts)


def _frontier(advice: Advice, colours: dict[str, str]) -> str:
    """Extra work against the objective; plans on the frontier have no other that is better in both."""
    plans = [one for one in advice.ranked if not one.refused and one.objective_s > 0]
    works = [one.extra_work for one in plans]
    times = [1e3 * one.objective_s for one in plans]
    pad = 0.06 * max(max(works) - min(works), 0.05)
    x = Linear(100 * (min(works) - pad), 100 * (max(works) + pad), BOX.left, BOX.right)
    y = Log(0.85 * min(times), 1.15 * max(times), BOX.bottom, BOX.top)
    parts = [
        x_axis(x, BOX, "extra work, % of the calls' own"),
        y_axis(y, BOX, f"{advice.objective}, ms", [(t, f"{t:g}") for t in spaced_ticks(y, 28)]),
    ]
    front = sorted(_frontier_of(plans), key=lambda one: one.extra_work)
    spots = [(x(100 * one.extra_work), y(1e3 * one.objective_s)) for one in front]
    parts.append(polyline(spots, class_="front"))
    for one in reversed(plans):
        words = f"{one.name}: {advice.objective} {1e3 * one.objective_s:.4g} ms, {one.extra_work:+.0%} work"
        spot = {"cx": x(100 * one.extra_work), "cy": y(1e3 * one.objective_s)}
        colour = colours.get(one.name, "#b9c0c6")
        r = 8.0 if one is advice.best else 5.5
        parts.append(tag("circle", note(words), **spot, r=r, fill=colour, class_="dot"))
    return drawing(WIDTH, HEIGHT, "Cost against latency", *parts)


def _frontier_of(plans: Sequence[Ranked]) -> Iterator[Ranked]:
    for one in plans:
        beaten = any(
            other.extra_work < one.extra_work and other.objective_s <= one.objective_s for other in plans
        )
        if not beaten:
            yield one


def _load_colours(advice: Advice) -> dict[str, str]:
    names = [name for at in advice.by_load[:1] for name in at.objective_s]
    return {
        name: NONE if name == advice.none.name else COLOURS[i % len(COLOURS)]
        for i, name in enumerate(name for name in names)
    }


def _by_load(advice: Advice) -> str:
    if not advice.by_load:
        return "<p>Other loads were not asked for.</p>"
    values = [1e3 * s for at in advice.by_load for s in at.objective_s.values() if s]
    x: Scale = Linear(0, 100, BOX.left, BOX.right)
    y = Log(0.85 * min(values), 1.15 * max(values), BOX.bottom, BOX.top)
    parts = [
        x_axis(x, BOX, "busy share of the replicas without redundancy, %"),
        y_axis(y, BOX, f"{advice.objective}, ms", [(t, f"{t:g}") for t in spaced_ticks(y, 28)]),
        tag(
            "line",
            note("the load asked for"),
            x1=x(100 * advice.workload.utilisation),
            x2=x(100 * advice.workload.utilisation),
            y1=BOX.top,
            y2=BOX.bottom,
            class_="mark",
        ),
    ]
    for name, colour in _load_colours(advice).items():
        spots = [
            (x(100 * at.load), y(1e3 * seconds))
            for at in advice.by_load
            if (seconds := at.objective_s.get(name)) is not None
        ]
        parts.append(tag("g", note(name), polyline(spots, class_="line", stroke=colour)))
        for at in advice.by_load:
            if at.best == name and (seconds := at.objective_s.get(name)) is not None:
                words = f"{name} is advised at {at.load:.0%}"
                spot = {"cx": x(100 * at.load), "cy": y(1e3 * seconds)}
                parts.append(tag("circle", note(words), **spot, r=6.0, fill=colour, class_="dot"))
    return drawing(WIDTH, HEIGHT, "Objective by load and plan", *parts)


def _changes(advice: Advice) -> str:
    if not advice.by_load:
        return ""
    first = advice.by_load[0]
    words = [f"At {first.load:.0%}: {first.best}"]
    return "; ".join(words + [f"from {load:.0%} on: {name}" for load, name in advice.changes_at]) + "."


def _row(one: Ranked, best: bool) -> str:
    cells = [
        one.name,
        _ms(one.objective_s),
        f"{_ms(one.interval.low)} - {_ms(one.interval.high)}" if one.interval else "-",
        _ms(one.mean_s),
        _ms(one.p99_s),
        _ms(one.p999_s),
        f"{one.extra_work:+.0%}",
        f"{one.load:.0%}",
        f"{one.reconstructed:.1%}",
        str(one.queries),
        one.reason,
    ]
    made = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    kind = "best" if best else "refused" if one.refused else ""
    return f'<tr class="{kind}">{made}</tr>'


def _evidence(advice: Advice) -> Iterator[str]:
    known = advice.evidence
    source = f"{known.n} service times" if known.n else "A law, taken to be exact"
    yield f"{source}: mean {_ms(known.mean_s)} ms, squared coefficient of variation {known.cv2:.3g}."
    low_high = known.two_copies_interval
    span = "" if low_high is None else f" ({low_high.low:.2f} to {low_high.high:.2f})"
    yield (
        f"Two copies that stop each other would cost {known.two_copies:.2f}{span} times one call if they "
        f"were independent; Gini {known.gini:.2f}, and copies save work above 0.50."
    )
    if known.shape is not None:
        after = known.shape.convex_after_s
        late = "" if not after else f", and convex from {_ms(after)} ms on: a hedge then saves work"
        yield f"The log of the tail is {known.shape.verdict}{late}."
    if known.pairs is not None:
        yield (
            f"Pairs: two copies cost {known.pairs.cost_ratio:.2f} times one call, independent ones would "
            f"cost {known.pairs.independent_ratio:.2f} (p = {known.pairs.p:.3f})."
        )


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.4g}"
