from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_load_experiment_data import PLANS, make_run

from load_tests.experiment.columns import OUTCOMES, Columns
from load_tests.experiment.page import render
from load_tests.experiment.page.choices import choices
from load_tests.experiment.page.results import results_table, signed, wilson
from load_tests.experiment.page.timeline import Span, frame, kinds, spans, timeline
from load_tests.experiment.rows import measure
from load_tests.experiment.runs import Event, Run, RunDirectory
from parm_ray.core import Outcome
from parm_ray.page.svg import Log, spaced_ticks

VOID = {"meta", "input", "br"}


class Balance(HTMLParser):
    """Fails at a tag that closes what is not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


def checked(run: RunDirectory) -> str:
    """The page, after what holds for every page."""
    page = render(run, measure(run))
    balance = Balance()
    balance.feed(page)
    assert balance.open == []
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert not re.search(r'="[^"]*\b(nan|inf)\b', svg)
    assert set(re.findall(r'https?://[^"]*', page)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<script|<link|src=|@import|url\(|@font-face", page)
    assert "nan" not in re.sub(r"<[^>]*>", " ", page)
    assert page.count("prefers-color-scheme: dark") == 2
    return page


def with_run(run: RunDirectory, **changes: object) -> RunDirectory:
    return RunDirectory(run.path, Run(**{**run.run.model_dump(), **changes}), run.files)


@pytest.mark.parametrize(
    ("plans", "loads", "repetitions"),
    [
        (PLANS[1:3], (0.5,), 1),
        (PLANS[:5], (0.4, 0.9), 3),
        (PLANS, (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95), 1),
    ],
)
def test_the_page_is_one_file_of_well_formed_drawings(tmp_path: Path, plans, loads, repetitions) -> None:
    page = checked(make_run(tmp_path, plans=plans, loads=loads, repetitions=repetitions, queries=120))
    assert len(page) < 3_000_000
    assert page.count("<h1>") == 1
    assert len(re.findall(r'id="rate-\d+"', page)) == len(loads)
    assert len(re.findall(r'id="show-s\d+"', page)) == len(plans)
    colours = re.findall(r"\.(s\d+)\{color:var\(--(\w+)\)\}", page)
    assert len({colour for _, colour in colours}) == len(plans)
    assert ("Latency against load" in page) == (len(loads) > 1)
    # A class of drawings that is hidden by its box, for every plan.
    for css, _ in colours:
        assert f"#show-{css}:not(:checked)~main .drawn.{css}" in page
        assert f'class="drawn {css}"' in page
    assert "made up" in page
    assert "python -m nothing --of-the-kind" in page


def test_what_others_wrote_is_escaped(tmp_path: Path) -> None:
    made = make_run(tmp_path, plans=(PLANS[1], PLANS[8]), loads=(0.5, 0.6), queries=120)
    cells = [cell.model_dump() for cell in made.run.cells]
    cells[0]["replicas"] = [{"name": "<i>", "node": "&", "pool": "<pool>", "busy": 0.5, "calls": 3}]
    cells[0]["timeline"] = [{"t": 0.1, "kind": "<b>", "what": '"quoted"'}]
    page = checked(
        with_run(made, cells=cells, scenario="a<b", warnings=["1 < 2"], settings={"x": {"y": "<z>"}})
    )
    for raw in ("<small>Appro", "backups <small>", "<pool>", "a<b", "1 < 2", "<z>"):
        assert raw not in page
    assert "Approximate backups &lt;small&gt;" in page
    assert "1 &lt; 2" in page


def test_failures_are_never_and_reds(tmp_path: Path) -> None:
    page = checked(make_run(tmp_path, plans=PLANS[:3], loads=(0.4, 0.6), queries=600, failing="none"))
    assert ">never<" in page
    assert 'class="never"' in page
    assert "points failed outcome-failed" in page
    assert "Read this first" in page
    assert "queries failed and count as never answered: No redundancy" in page


def test_a_plan_without_one_answer_has_no_curve(tmp_path: Path) -> None:
    made = make_run(tmp_path, plans=PLANS[:2], loads=(0.5,), queries=50, form="csv")
    path = made.files["none-50-0"]
    path.write_text(path.read_text().replace("original", "failed"))
    page = checked(made)
    assert "never" in page


def test_a_bare_run_has_no_empty_sections(tmp_path: Path) -> None:
    made = make_run(tmp_path, plans=PLANS[1:3], loads=(0.5,), queries=80)
    cells = [
        {**cell.model_dump(), "replicas": [], "timeline": [], "load": None, "utilization": None}
        for cell in made.run.cells
    ]
    page = checked(with_run(made, cells=cells))
    assert "Replica by replica" not in page
    assert "% load" not in page
    assert "At 203 queries/s." in page


def test_the_best_value_is_marked_at_its_rate(tmp_path: Path) -> None:
    found = measure(make_run(tmp_path, plans=PLANS[:4], loads=(0.5,), queries=3000))
    table = results_table(found, choices(found))
    rows = [
        re.findall(r'<td class="number ?(\w*)">', line) for line in re.findall(r"<tr>.*?</tr>", table)[1:]
    ]
    heads = re.findall(r"<th[^>]*>(.*?)</th>", table)
    p99 = heads.index("p99") - 1
    values = [one.row["p99_ms"] for one in found]
    marks = [row[p99] for row in rows]
    assert marks[int(np.argmin(values))] == "best"
    assert marks.count("best") == 1
    assert marks[0] == ""
    assert {row[heads.index("util.") - 1] for row in rows} == {""}


def many(n: int) -> Columns:
    rng = np.random.default_rng(0)
    planned = np.sort(rng.uniform(0, 600, n))
    latency = 20 + rng.exponential(5, n) + 200 * (rng.random(n) < 0.02)
    latency[n // 2 + 1] = 9000.0
    original, stand_in, failed = (
        OUTCOMES.index(outcome) for outcome in (Outcome.ORIGINAL, Outcome.RECONSTRUCTED, Outcome.FAILED)
    )
    outcome = np.where(rng.random(n) < 0.01, stand_in, original).astype(np.int8)
    outcome[::5000] = failed
    latency[::5000] = np.inf
    return Columns(planned, latency, np.zeros(n), outcome, np.full(n, -1, dtype=np.int8))


@pytest.mark.parametrize("most", [300, 3000])
def test_a_timeline_of_100_000_queries_is_thinned_to_its_outline(most: int) -> None:
    columns = many(100_000)
    events = [
        Event(t=4 * i + later, kind=kind, what=str(i))
        for i in range(150)
        for kind, later in (("shuffle", 0), ("shuffle_end", 2))
    ]
    events += [Event(t=i / 2, kind="kill") for i in range(1000)]
    shared = frame([columns], most, 40)
    svg = timeline("A", "s0", columns, events, shared, True)
    assert len(svg) < 25 * (most + 2 * 200) + 170 * 40 + 13 * 1000
    # None is left out, nor joined with its neighbour; a thousand kills have 800 pixels.
    assert 'class="band' not in svg
    assert len(re.findall(r"M\d+ \d+H", svg)) == 150
    assert len(re.findall(r"M\d+ \d+V", svg)) > 780
    dots = {
        kind: [tuple(map(float, dot.split())) for dot in re.findall(r"M([\d.]+ [\d.]+)h0", d)]
        for d, kind in re.findall(r'<path d="([^"]*)" class="points \w+ outcome-(\w+)"', svg)
    }
    assert set(dots) == {"original", "reconstructed", "failed"}
    heights = [y for _, y in dots["original"]]
    # The slowest query of all is still there, alone.
    assert min(heights) < sorted(heights)[1] - 20
    assert max(y for _, y in dots["failed"]) < min(heights)


def test_what_overlaps_is_one_band_of_a_strip() -> None:
    columns = many(100)
    events = [Event(t=10 * i, kind="shuffle", what=str(i)) for i in range(20)]
    events += [Event(t=10 * i + 12, kind="shuffle_end", what=str(i)) for i in range(20)]
    events += [Event(t=500, kind="stall", what="a"), Event(t=510, kind="resume", what="a")]
    svg = timeline("A", "s0", columns, events, frame([columns], 100, 40), True)
    notes = re.findall(r"<title>(.*?)</title>", svg)
    assert notes == ["shuffle several, 0.00 to 202.00 s", "stall a, 500.00 to 510.00 s"]


def test_spans_pair_what_begins_with_what_ends() -> None:
    events = [
        Event(t=1, kind="stall", what="a"),
        Event(t=2, kind="stall", what="b"),
        Event(t=3, kind="resume", what="a"),
        Event(t=4, kind="kill", what="c"),
        Event(t=5, kind="shuffle_end", what="x"),
        Event(t=6, kind="shuffle", what="x"),
        Event(t=7, kind="shuffle_end", what="x"),
    ]
    assert kinds(events) == {"stall": True, "kill": False, "shuffle": True}
    assert spans(events[4:5], 10) == []
    assert spans(events, 10) == [
        Span(1, 3, "stall", "a"),
        Span(2, 10, "stall", "b"),
        Span(4, None, "kill", "c"),
        Span(6, 7, "shuffle", "x"),
    ]


@given(st.floats(0.01, 1e5), st.floats(1.05, 1e6), st.integers(80, 1000), st.integers(18, 60))
def test_ticks_never_overlap(low: float, ratio: float, length: int, gap: int) -> None:
    scale = Log(low, low * ratio, 0, length)
    ticks = spaced_ticks(scale, gap)
    places = [scale(tick) for tick in ticks]
    assert all(b - a >= gap for a, b in pairwise(places))
    assert all(low * 0.999 <= tick <= low * ratio * 1.001 for tick in ticks)


def test_an_axis_has_ticks_whether_it_is_wide_or_narrow() -> None:
    assert spaced_ticks(Log(20, 500, 0, 900), 44) == [20, 30, 50, 70, 100, 150, 200, 300, 500]
    assert spaced_ticks(Log(31, 34, 0, 300), 44) == pytest.approx([31, 31.5, 32, 32.5, 33, 33.5, 34])
    assert spaced_ticks(Log(1, 1e6, 0, 130), 40) == [1, 100, 1e4, 1e6]


def test_words() -> None:
    assert (signed(-0.5), signed(123.4), signed(float("inf"))) == ("−0.50", "+123", "+∞")
    assert (signed(-0.001), signed(0.0, 0), signed(-3.04)) == ("0.00", "0", "−3.0")
    low, high = wilson(90, 100)
    assert (low, high) == (pytest.approx(0.826, abs=1e-3), pytest.approx(0.945, abs=1e-3))
