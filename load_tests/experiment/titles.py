"""What variants are called for a person: short, and no two the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from load_tests.experiment.rows import Measurement, Variant


def titles(measurements: Iterable[Measurement]) -> dict[Variant, str]:
    """The title of every variant, in their order; k, pool and r are added where titles are the same."""
    plain: dict[Variant, str] = {}
    for one in measurements:
        plain.setdefault(one.variant, one.title)
    named = dict(plain)
    for field in ("k", "pool", "r", "plan"):
        same = Counter(named.values())
        for variant, title in plain.items():
            value = getattr(variant, field)
            if same[named[variant]] > 1 and value is not None and str(value) not in title:
                named[variant] += f", {value} pool" if field == "pool" else f", {field} = {value}"
    return named


def rate_title(measurements: Sequence[Measurement]) -> str:
    """One rate in words, with the load if all who were measured there agree on it."""
    words = f"{per_second(measurements[0].rate)} queries/s"
    loads = {round(one.load, 3) for one in measurements if one.load is not None}
    return f"{words}, {100 * loads.pop():.0f} % load" if len(loads) == 1 else words


def per_second(rate: float) -> str:
    """A rate with three digits, or all before the point."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def listed(words: Sequence[str], most: int = 12) -> str:
    """`a, b and c`; of more than `most`, the rest are counted."""
    words = list(words)
    if len(words) > most:
        words = [*words[: most - 1], f"{len(words) - most + 1} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
