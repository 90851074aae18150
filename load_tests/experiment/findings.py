"""The main findings of a run in sentences, computed from its measurements."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from load_tests.experiment.cautions import TAIL_QUERIES
from load_tests.experiment.compare import STATISTICS, Difference, default_baseline, difference, level
from load_tests.experiment.resample import QUANTILES
from load_tests.experiment.rows import Measurement, Variant, at_rate, partner, rates, same_rate
from load_tests.experiment.titles import listed, per_second
from load_tests.tables import ms, percent
from parm_ray.core import Outcome

OWN = (Outcome.ORIGINAL, Outcome.COPY)
STAND_INS = {
    Outcome.RECONSTRUCTED: "reconstructions",
    Outcome.BACKUP: "the backup model's",
    Outcome.DEFAULT: "default answers",
}
Pairs = list[tuple[Measurement, Difference]]


@dataclass(frozen=True)
class Findings:
    """headline: one sentence without a full stop. points: sentences, the most important first."""

    headline: str
    points: tuple[str, ...]


def deepest(measurements: Sequence[Measurement]) -> str:
    """The deepest percentile that rests on enough queries in every row, by its name in `STATISTICS`."""
    for name in ("p99.9", "p99.5", "p99", "p90"):
        q = QUANTILES[STATISTICS[name]] or 0.5
        if all(one.tail_queries(q) >= TAIL_QUERIES for one in measurements):
            return name
    return "p50"


def findings(measurements: Sequence[Measurement], titles: Mapping[Variant, str]) -> Findings:
    """Who has the shortest tail, against whom and by how much, and what it costs."""
    tail = deepest(measurements)
    best = {rate: _best(at_rate(measurements, rate), tail) for rate in rates(measurements)}
    contested = {rate: one for rate, one in best.items() if one and len(at_rate(measurements, rate)) > 1}
    if not contested:
        title = next(iter(titles.values()))
        return Findings(f"{title}: nothing to compare it with", ())
    front = _front(measurements, contested, tail)
    wins = Counter(one.variant for one in contested.values())
    order = list(titles)
    first = min(front, key=lambda v: (-len(front[v]), -wins[v], order.index(v)))
    # Where the baseline itself is the best, the sentences are about who comes next.
    baseline = default_baseline(order)
    ours = [one for one in measurements if one.variant == first]
    if first.plan == baseline:
        others = [v for v in order if v.plan != baseline]
        rivals = sorted(others, key=lambda v: -len(front.get(v, [])))
        against = [
            (one, other)
            for one in ours
            for other in at_rate(measurements, one.rate)
            if other.variant == rivals[0]
        ]
    else:
        against = [(one, other) for one in ours if (other := partner(one, measurements, baseline))]
    name = titles[against[0][1].variant] if against else ""
    pairs: Pairs = [(one, difference(one, other, tail)) for one, other in against]
    medians: Pairs = [(one, difference(one, other, "p50")) for one, other in against]
    points = [
        _level(first, front, len(contested), tail, titles),
        _sentence(titles[first], name, tail, pairs),
        _sentence(titles[first], name, "p50", medians) if tail != "p50" else "",
        _gap(ours, baseline, titles),
        _elsewhere(first, contested, tail, titles),
        _price(ours, titles[first]),
    ]
    return Findings(
        _headline(first, name, tail, contested, front[first], pairs, titles),
        tuple(point for point in points if point),
    )


def _value(one: Measurement, statistic: str) -> float:
    return float(one.row[STATISTICS[statistic]])


def _best(there: Sequence[Measurement], statistic: str) -> Measurement | None:
    finite = [one for one in there if math.isfinite(_value(one, statistic))]
    return min(finite, key=lambda one: _value(one, statistic)) if finite else None


def _front(
    measurements: Sequence[Measurement], best: Mapping[float, Measurement], statistic: str
) -> dict[Variant, list[float]]:
    """Variant -> the rates at which it is the best, or stands beside it."""
    found: dict[Variant, list[float]] = {}
    for rate, winner in best.items():
        for one in at_rate(measurements, rate):
            if level(one, winner, statistic):
                found.setdefault(one.variant, []).append(rate)
    return found


def _headline(
    first: Variant,
    name: str,
    tail: str,
    contested: Mapping[float, Measurement],
    front: Sequence[float],
    pairs: Pairs,
    titles: Mapping[Variant, str],
) -> str:
    won = [rate for rate, one in contested.items() if one.variant == first]
    clear = 2 * len(won) >= len(front)
    at = won if clear else front
    where = f"at {per_second(at[0])} queries/s" if len(at) == 1 else f"at {len(at)} of {len(contested)} rates"
    lead = (
        f"{titles[first]} has the lowest {tail} {where}"
        if clear
        else f"No {tail} is shown to be lower than that of {titles[first]} {where}"
    )
    there = [d for one, d in pairs if same_rate(one.rate) in at]
    if not there:
        return lead
    if not any(d.real for d in there):
        return f"{lead}, but it is not shown to differ from {name}"
    if len(there) == 1:
        return f"{lead}: {_ms(there[0].a)}, against {_ms(there[0].b)} of {name}"
    lower = [d for d in there if d.real and d.value < 0]
    return (
        f"{lead}, {_range(lower)} {name}{'' if len(lower) == len(there) else f' at {len(lower)} of them'}"
        if lower
        else lead
    )


def _range(found: Sequence[Difference]) -> str:
    cuts = [1 - d.ratio for d in found if d.ratio is not None]
    if not cuts:
        return "where no answer came from"
    low, high = (f"{100 * cut:.0f}" for cut in (min(cuts), max(cuts)))
    return f"{low} % below" if low == high else f"{low} to {high} % below"


def _sentence(ours: str, theirs: str, statistic: str, pairs: Pairs) -> str:
    """`Against B, p99 of A is lower at ... (-80 to -60 %), higher at ...; no difference is shown at ...`."""
    if not pairs:
        return ""
    groups = {
        "lower": [(one, d) for one, d in pairs if d.real and d.value < 0],
        "higher": [(one, d) for one, d in pairs if d.real and d.value > 0],
    }
    said = [
        f"{word} at {_rates(found) if len(found) < max(len(pairs), 2) else 'every rate'}{_percents(found)}"
        for word, found in groups.items()
        if found
    ]
    rest = [(one, d) for one, d in pairs if not d.real]
    if not said:
        return f"Against {theirs}, {statistic} of {ours} is not shown to differ at any rate ({_rates(rest)})."
    unknown = f"; no difference is shown at {_rates(rest)}" if rest else ""
    return f"Against {theirs}, {statistic} of {ours} is {' and '.join(said)}{unknown}."


def _rates(pairs: Pairs) -> str:
    return listed([per_second(one.rate) for one, _ in pairs]) + " queries/s"


def _percents(pairs: Pairs) -> str:
    ratios = sorted(d.ratio for _, d in pairs if d.ratio is not None)
    if not ratios:
        return ""
    digits = 0 if max(abs(ratio - 1) for ratio in ratios) >= 0.05 else 1
    words = list(dict.fromkeys(f"{100 * (ratio - 1):+.{digits}f}" for ratio in (ratios[0], ratios[-1])))
    return f" ({' to '.join(words)} %)".replace("-", "−")


def _gap(ours: Sequence[Measurement], baseline: str, titles: Mapping[Variant, str]) -> str:
    ratios = [one.row["gap_ratio"] for one in ours if one.row["gap_ratio"] is not None]
    reference = next((title for variant, title in titles.items() if variant.plan == baseline), "")
    if not ratios or ours[0].variant.plan == baseline:
        return ""
    low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    size = low if low == high else f"{low} to {high}"
    return f"Its gap between p50 and p99.9 is {size} times that of {reference}."


def _elsewhere(
    first: Variant, contested: Mapping[float, Measurement], tail: str, titles: Mapping[Variant, str]
) -> str:
    places: dict[Variant, list[float]] = {}
    for rate, one in contested.items():
        if one.variant != first:
            places.setdefault(one.variant, []).append(rate)
    others = [
        f"{titles[v]} at {listed([per_second(rate) for rate in at])} queries/s" for v, at in places.items()
    ]
    return f"The lowest measured {tail} is that of {'; '.join(others)}." if others else ""


def _level(
    first: Variant, front: Mapping[Variant, list[float]], of: int, tail: str, titles: Mapping[Variant, str]
) -> str:
    ranked = sorted((v for v in front if v != first), key=lambda v: -len(front[v]))
    others = [titles[v] + (f" at {len(front[v])} of {of} rates" if of > 1 else "") for v in ranked]
    return (
        f"At most a quarter above the lowest {tail}, and not shown to differ from it: {listed(others, 6)}."
        if others
        else ""
    )


def _price(ours: Sequence[Measurement], title: str) -> str:
    parts = []
    for outcome, words in STAND_INS.items():
        shares = [one.row.get(outcome.value) or 0.0 for one in ours]
        if not max(shares):
            continue
        low, high = percent(min(shares)), percent(max(shares))
        said = f"{low if low == high else f'{low} to {high}'} of its answers are {words}"
        right, known = (sum(one.right(outcome)[i] for one in ours) for i in (0, 1))
        own_right, own_known = (sum(one.right(*OWN)[i] for one in ours) for i in (0, 1))
        if known and own_known:
            of_own = percent(own_right / own_known)
            said += f", {percent(right / known)} of them right, against {of_own} of the model's own"
        parts.append(said)
    work = [one.row["extra_work"] for one in ours if one.row["extra_work"]]
    if work:
        low, high = percent(min(work), 0), percent(max(work), 0)
        parts.append(f"the extra work is {low if low == high else f'{low} to {high}'} of the original calls")
    return f"What {title} costs: {'; '.join(parts)}." if parts else ""


def _ms(value: float) -> str:
    return "never" if math.isinf(value) else f"{ms(value)} ms"
