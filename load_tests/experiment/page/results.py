"""The tables of the page: results with the best values marked, differences, accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from load_tests.experiment.compare import STATISTICS, Comparison, level
from load_tests.experiment.page.choices import Choices
from load_tests.experiment.rows import ANSWERS, Measurement, rates, same_rate
from load_tests.experiment.tables import COSTS, RESULTS, Shown
from load_tests.experiment.titles import per_second
from load_tests.page.fault_chart import NAMES as OUTCOME_NAMES
from load_tests.tables import percent
from parm_ray.core import Outcome

_STATISTIC_OF = {figure: name for name, figure in STATISTICS.items()}


def results_table(there: Sequence[Measurement], choices: Choices) -> str:
    """The results of one rate. A value that stands beside the best is marked lightly."""
    return _table(there, choices, RESULTS)


def costs_table(there: Sequence[Measurement], choices: Choices) -> str:
    """What each plan used at one rate."""
    known = [shown for shown in COSTS if any(one.row.get(shown.key) is not None for one in there)]
    return _table(there, choices, known)


def _table(there: Sequence[Measurement], choices: Choices, columns: Sequence[Shown]) -> str:
    head = '<th>plan</th><th class="number">replicas</th>'
    head += "".join(f'<th class="number">{escape(shown.column.title)}</th>' for shown in columns)
    marks = {shown.key: _marks(there, shown) for shown in columns}
    lines = []
    for n, one in enumerate(there):
        cells = "".join(_cell(one, shown, marks[shown.key][n]) for shown in columns)
        lines.append(f'<tr>{_plan(one, choices)}<td class="number">{_replicas(one)}</td>{cells}</tr>')
    return _wrapped(head, lines)


def _marks(there: Sequence[Measurement], shown: Shown) -> list[str]:
    """Per row `best`, `close` (beside the best) or nothing."""
    values = [one.row.get(shown.key) for one in there]
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if shown.better is None or len(set(finite)) < 2:
        return [""] * len(there)
    best = min(finite) if shown.better == "low" else max(finite)
    marks = ["best" if value == best else "" for value in values]
    winner = there[marks.index("best")]
    for n, one in enumerate(there):
        if not marks[n] and _level(one, winner, shown.key):
            marks[n] = "close"
    return marks


def _level(one: Measurement, winner: Measurement, key: str) -> bool:
    """Whether a value stands beside the best one."""
    if key in _STATISTIC_OF:
        return level(one, winner, _STATISTIC_OF[key])
    ours, best = one.right(*ANSWERS), winner.right(*ANSWERS)
    return key == "accuracy" and bool(ours[1] and best[1]) and wilson(*ours)[1] > wilson(*best)[0]


def _cell(one: Measurement, shown: Shown, mark: str) -> str:
    below = f"<small>{escape(shown.below(one.row))}</small>" if shown.below else ""
    mark = f" {mark}" if mark else ""
    return f'<td class="number{mark}"><span>{escape(shown.column.cell(one.row))}</span>{below}</td>'


def _plan(one: Measurement, choices: Choices) -> str:
    series = choices.of(one.variant)
    # `k = 2` is not to be folded.
    title = escape(series.title).replace(" = ", "&nbsp;=&nbsp;")
    return f'<td class="plan"><i class="swatch round {series.css}"></i>{title}</td>'


def _replicas(one: Measurement) -> str:
    pools: dict[str, int] = {}
    for replica in one.cells[0].replicas:
        pools[replica.pool] = pools.get(replica.pool, 0) + 1
    n = one.cells[0].n
    return " + ".join(str(count) for count in pools.values()) if sum(pools.values()) == n else str(n)


def differences_table(comparisons: Sequence[Comparison], choices: Choices) -> str:
    """One line per plan, one group of columns per statistic; all comparisons are of one rate."""
    statistics = list(dict.fromkeys(c.statistic for c in comparisons))
    by_plan: dict[int, dict[str, Comparison]] = {}
    for c in comparisons:
        by_plan.setdefault(id(c.a), {})[c.statistic] = c
    head = "<th>plan</th>" + "".join(
        f'<th class="number">{name} ms</th><th class="number">95 % interval</th><th></th>'
        for name in statistics
    )
    lines = []
    for found in by_plan.values():
        cells = "".join(_difference(found[name]) for name in statistics)
        lines.append(f"<tr>{_plan(next(iter(found.values())).a, choices)}{cells}</tr>")
    return _wrapped(head, lines)


def _difference(c: Comparison) -> str:
    d = c.difference
    ratio = "" if d.ratio is None else f"<small>{signed(100 * (d.ratio - 1), 0)} %</small>"
    interval = "" if d.low == d.high else f"{signed(d.low)} to {signed(d.high)}"
    kind = ("lower" if d.value < 0 else "higher") if d.real else "unknown"
    return (
        f'<td class="number"><span>{signed(d.value)}</span>{ratio}</td>'
        f'<td class="number">{interval}</td>'
        f'<td><b class="verdict {kind}">{d.word}</b></td>'
    )


def signed(value: float, digits: int | None = None) -> str:
    """A difference with its sign; infinite is `never`, which is above everything."""
    if math.isinf(value):
        return "+∞" if value > 0 else "−∞"
    if digits is None:
        digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 1 else 2
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def accuracy_table(measurements: Sequence[Measurement], choices: Choices) -> str:
    """Per plan, over all rates: right answers among all, and among those of each origin; 95 % intervals."""
    judged = {
        series.variant: [one for one in measurements if one.variant == series.variant]
        for series in choices.series
    }
    judged = {variant: ours for variant, ours in judged.items() if _right(ours, ANSWERS)[1]}
    if not judged:
        return ""
    origins = [o for o in ANSWERS if any(_right(ours, (o,))[1] for ours in judged.values())]
    names = ["all answers", *(OUTCOME_NAMES[origin] for origin in origins)]
    head = "<th>plan</th>" + "".join(f'<th class="number">{name}</th>' for name in names)
    lines = []
    for ours in judged.values():
        known = [_right(ours, of) for of in (ANSWERS, *((origin,) for origin in origins))]
        cells = "".join(f'<td class="number">{_with_interval(*one)}</td>' for one in known)
        lines.append(f"<tr>{_plan(ours[0], choices)}{cells}</tr>")
    return _wrapped(head, lines)


def _right(ours: Sequence[Measurement], outcomes: Sequence[Outcome]) -> tuple[int, int]:
    found = [one.right(*outcomes) for one in ours]
    return sum(right for right, _ in found), sum(known for _, known in found)


def _with_interval(right: int, known: int) -> str:
    if not known:
        return "-"
    low, high = wilson(right, known)
    of = f"{100 * low:.1f} to {100 * high:.1f}, of {known:,}"
    return f"<span>{percent(right / known)}</span><small>{of}</small>"


def wilson(right: int, known: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson, 1927)."""
    z, share = 1.96, right / known
    middle = share + z * z / (2 * known)
    half = z * math.sqrt(share * (1 - share) / known + z * z / (4 * known * known))
    return (middle - half) / (1 + z * z / known), (middle + half) / (1 + z * z / known)


def all_results(measurements: Sequence[Measurement], choices: Choices, words: Mapping[float, str]) -> str:
    """The results of every rate, one table each."""
    parts = []
    for rate in rates(measurements):
        there = [one for one in measurements if same_rate(one.rate) == rate]
        title = words.get(rate, f"{per_second(rate)} queries/s")
        parts.append(f"<h3>{escape(title)}</h3>{results_table(there, choices)}")
    return "".join(parts)


def _wrapped(head: str, lines: Sequence[str]) -> str:
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="scroll"><table>{body}</table></div>'
