"""The page of a plan: complete, escaped, without anything from elsewhere."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from parm_ray.routing.fleet import solve
from parm_ray.routing.fleet.snapshot import Snapshot
from parm_ray.serve.fleet.page import render
from tests.support.fleets import published, three_regions


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("src", "href")]


def test_it_shows_flows_reasons_and_changes_and_needs_nothing_from_elsewhere() -> None:
    fleet = three_regions()
    a, b, c = fleet.engines
    dead = replace(fleet, engines=(a, replace(b, health=0.0), c))
    second = Snapshot.of(
        solve(dead), version=2, created=0.0, ages_s={"demand of A": None, "demand of B": 1.5},
        penalties={"C": (0.25, "10.0 times <its> latency")},
    )  # fmt: skip
    page = render([published(fleet, 1), second])
    links = Links()
    links.feed(page)
    assert links.found == ["data:,"]
    for text in ("dead", "shed", "10.0 times &lt;its&gt; latency", "never heard", "B/default"):
        assert text in page
    assert "<its>" not in page
    assert page.count('class="flow"') == int((second.weights > 0).sum())
    assert "version 2" in page


def test_a_page_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="history"):
        render([])
