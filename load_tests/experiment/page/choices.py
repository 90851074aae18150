"""What a reader chooses on the page: one rate, and which plans are drawn. No script: inputs and CSS.

The inputs stand before everything else, and every section has labels for them. A rule per input shows
what belongs to a rate, or hides what is drawn of a plan. Printed, the page shows all rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from load_tests.experiment.rows import EQUAL_RESOURCES, Measurement, Variant, at_rate, rates
from load_tests.experiment.titles import rate_title, titles

COLOURS = 10
# From here on curves are dashed too: nobody tells twelve colours apart.
SOLID = 6


@dataclass(frozen=True)
class Series:
    """One variant on the page. css: its class; `s3` has a colour and can be hidden."""

    variant: Variant
    title: str
    css: str
    colour: str
    dashed: bool

    @property
    def swatch(self) -> str:
        """Classes of its sign in a legend."""
        return f"{self.css} dashed" if self.dashed else self.css


@dataclass(frozen=True)
class Choices:
    """The series and the rates of a page; `first` is the rate that is shown at first."""

    series: tuple[Series, ...]
    rates: tuple[float, ...]
    rate_titles: tuple[str, ...]
    first: int

    def of(self, variant: Variant) -> Series:
        """The series of a variant. Raises StopIteration for one that is not on the page."""
        return next(one for one in self.series if one.variant == variant)

    def inputs(self) -> str:
        """The inputs, to stand before `<main>`."""
        radios = "".join(
            f'<input class="choice" type="radio" name="rate" id="rate-{i}" aria-label="{escape(title)}"'
            f"{' checked' if i == self.first else ''}>"
            for i, title in enumerate(self.rate_titles)
        )
        boxes = "".join(
            f'<input class="choice" type="checkbox" id="show-{one.css}" checked '
            f'aria-label="draw {escape(one.title)}">'
            for one in self.series
        )
        return radios + boxes

    def style(self) -> str:
        """One rule per choice."""
        rules = []
        for i in range(len(self.rates)):
            rules += [
                f"#rate-{i}:checked~main .at-{i}{{display:block}}",
                f"#rate-{i}:checked~main .pick label[for=rate-{i}]"
                "{background:var(--ink);color:var(--card);border-color:var(--ink)}",
                f"#rate-{i}:focus-visible~main .pick label[for=rate-{i}]{{outline:2px solid var(--c2)}}",
            ]
        for one in self.series:
            name = one.css
            rules += [
                f".{name}{{color:var(--{one.colour})}}",
                f"#show-{name}:not(:checked)~main .drawn.{name}{{display:none}}",
                f"#show-{name}:not(:checked)~main label[for=show-{name}]"
                "{opacity:.45;text-decoration:line-through}",
                f"#show-{name}:focus-visible~main label[for=show-{name}]{{outline:2px solid var(--c2)}}",
            ]
            if one.dashed:
                rules.append(f".curve.{name}{{stroke-dasharray:7 3}}")
        return "".join(rules)

    def pick_rate(self) -> str:
        """The labels of the rates; nothing if there is only one."""
        if len(self.rates) < 2:
            return f'<p class="only">At {escape(self.rate_titles[0])}.</p>'
        pills = "".join(
            f'<label for="rate-{i}">{escape(title)}</label>' for i, title in enumerate(self.rate_titles)
        )
        return f'<div class="pick">{pills}</div>'

    def legend(self) -> str:
        """The labels of the plans; a click hides one."""
        items = "".join(
            f'<li><label for="show-{one.css}"><i class="swatch {one.swatch}"></i>'
            f"{escape(one.title)}</label></li>"
            for one in self.series
        )
        return f'<ul class="legend">{items}</ul>'

    def per_rate(self, parts: Sequence[str]) -> str:
        """One part per rate, of which the page shows the chosen one."""
        blocks = "".join(
            f'<div class="at at-{i}"><p class="printed">{escape(self.rate_titles[i])}</p>{part}</div>'
            for i, part in enumerate(parts)
        )
        return blocks


def choices(measurements: Sequence[Measurement]) -> Choices:
    """What there is to choose. The middle rate is shown first; plans without coding are grey and amber."""
    free = [f"c{i}" for i in range(COLOURS)]
    fixed = {"none": "none", EQUAL_RESOURCES: "equal"}
    series: list[Series] = []
    for i, (variant, title) in enumerate(titles(measurements).items()):
        colour = fixed.pop(variant.plan, None) or free[0]
        if colour == free[0]:
            free.append(free.pop(0))
        series.append(Series(variant, title, f"s{i}", colour, len(series) >= SOLID))
    all_rates = rates(measurements)
    words = [rate_title(at_rate(measurements, rate)) for rate in all_rates]
    return Choices(tuple(series), tuple(all_rates), tuple(words), (len(all_rates) - 1) // 2)
