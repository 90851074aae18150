"""The page: what was measured, in words, tables and drawings, in one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from load_tests import tables
from load_tests.faults import FaultEvent
from load_tests.page.fault_chart import fault_chart
from load_tests.page.group_chart import Timeline, group_chart
from load_tests.page.tail_chart import tail_chart
from load_tests.records import ClientRecord
from load_tests.tables import Column, ms, percent

Row = Mapping[str, Any]
STYLE = Path(__file__).with_name("style.css")


@dataclass(frozen=True)
class Report:
    """Everything on the page. `runs` and `plans` are in the order in which they are to be shown.

    rate: planned queries per second. warnings: why the figures may mean nothing, in whole sentences.
    setting: name and value pairs of how it was measured.
    """

    rate: float
    plans: Sequence[Row]
    runs: Mapping[str, Sequence[ClientRecord]]
    accuracy: Sequence[Row] = ()
    faults: Sequence[Row] = ()
    fault_records: Sequence[ClientRecord] = ()
    fault_events: Sequence[FaultEvent] = ()
    groups: Mapping[str, Sequence[Timeline]] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    setting: Sequence[tuple[str, str]] = ()


def render(report: Report) -> str:
    """The whole HTML document."""
    titles = {row["plan"]: row["title"] for row in report.plans}
    body = [
        f"<h1>The tail of {len(report.plans)} redundancy plans, at one load</h1>",
        f'<p class="lead">{_lead(report)}</p>',
        _warnings(report.warnings),
        f'<div class="tiles">{"".join(_tile(row) for row in report.plans)}</div>',
        _section(
            "Latency",
            "Read it from the top: every query takes at least the fastest time, half of them at least p50, "
            "one in a hundred at least p99. Both axes are logarithmic; a dot marks p99.",
            tail_chart(report.runs, titles),
            html_table(tables.PLANS, report.plans),
        ),
        _faults(report),
        _groups(report),
        _accuracy(report),
        _section("How it was measured", "", _definitions(report.setting)),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>parm_ray demo</title><style>{STYLE.read_text()}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def html_table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """The same table as on the terminal."""
    head = "".join(f"<th{_align(c)}>{escape(c.title)}</th>" for c in columns)
    lines = "".join(
        f"<tr>{''.join(f'<td{_align(c)}>{escape(c.cell(row))}</td>' for c in columns)}</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def _align(column: Column) -> str:
    return ' class="number"' if column.number else ""


def _lead(report: Report) -> str:
    queries = max((row["queries"] for row in report.plans), default=0)
    words = (
        f"{queries:,} queries per plan at {report.rate:g} per second, with the same planned send times and "
        "the same images for each. A share of all calls is ten times slower than the rest; what differs is "
        "what the spare replicas do about it."
    )
    return words


def _tile(row: Row) -> str:
    finite = ms(row["p99_ms"])
    unit = "" if finite == "never" else " <small>ms p99</small>"
    return (
        f'<div class="tile plan-{row["plan"]}"><h3>{escape(row["title"])}</h3>'
        f'<div class="figure" style="color: var(--ink)">{finite}{unit}</div>'
        f"<p>{escape(row['replicas'])} replicas<br>median {ms(row['p50_ms'])} ms<br>"
        f"utilisation of the deployed pool {percent(row['utilization'], 0)}</p></div>"
    )


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    lines = "".join(f"<p>{escape(line)}</p>" for line in warnings)
    return f'<section class="warning"><h2>Read this first</h2>{lines}</section>'


def _section(title: str, words: str, *parts: str) -> str:
    lead = f"<p>{escape(words)}</p>" if words else ""
    return f"<section><h2>{escape(title)}</h2>{lead}{''.join(parts)}</section>"


def _faults(report: Report) -> str:
    if not report.fault_records:
        return ""
    return _section(
        "A replica stalls, a replica dies",
        "The same load on concatenation with slot decoding. One replica of the deployed model is stopped "
        "(SIGSTOP) and later continued; then another one is killed (SIGKILL) and Serve starts a new one.",
        fault_chart(report.fault_records, report.fault_events),
        html_table(tables.FAULTS, report.faults),
    )


def _groups(report: Report) -> str:
    shown = {title: lines for title, lines in report.groups.items() if lines}
    if not shown:
        return ""
    legend = (
        '<ul class="legend">'
        '<li><i class="swatch bar"></i>a call to the deployed model</li>'
        '<li><i class="swatch bar late"></i>its rest, when nobody waits any more</li>'
        '<li><i class="swatch bar parity"></i>the parity query</li>'
        '<li><i class="swatch round" style="color:var(--ink)"></i>answered by the original</li>'
        '<li><i class="swatch diamond outcome-reconstructed"></i>answered by a reconstruction</li></ul>'
    )
    parts = [legend]
    for title, lines in shown.items():
        drawings = "".join(f"<div>{group_chart(line)}</div>" for line in lines)
        parts.append(f'<h3>{escape(title)}</h3><div class="groups">{drawings}</div>')
    return _section(
        "Groups in which a reconstruction won",
        "Two consecutive queries form a group. The parity query goes out when the second has come. "
        "A slot whose own answer is late is answered from the parity model's output.",
        *parts,
    )


def _accuracy(report: Report) -> str:
    if not report.accuracy:
        return ""
    return _section(
        "What a reconstruction is worth",
        "Accuracy on the test images: A_a of the deployed model's own answers, A_d of reconstructions "
        "(degraded mode). Measured offline, when the models were trained.",
        html_table(tables.ACCURACY, report.accuracy),
    )


def _definitions(pairs: Sequence[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(value)}</dd>' for name, value in pairs)}</dl>"
