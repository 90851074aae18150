"""What the demo says about what it measured: `results.json`, the warnings, and the page's contents."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from load_tests.client import LAG_LIMIT_S, send_lateness_p99
from load_tests.demo_plans import FAULTED, DemoPlan
from load_tests.demo_run import Outcome
from load_tests.page import Report
from load_tests.page.group_chart import choose
from load_tests.records import failures
from load_tests.results import Row, accuracy_rows, fault_rows, plan_row

# Above this share of all cores, replicas wait for the CPU and latency measures the machine.
CPU_LIMIT = 0.9
GROUPS_SHOWN = 4


def results_document(
    plans: Sequence[DemoPlan], outcome: Outcome, artifacts: Path, load: Mapping[str, Any]
) -> dict[str, Any]:
    """The content of `results.json`: rows by plan, accuracy, faults, warnings, how it was run."""
    rows: list[Row] = []
    for plan in plans:
        if plan.name in outcome.phases:
            row = plan_row(plan.name, plan.m, plan.replicas, outcome.phases[plan.name])
            rows.append({"title": plan.title, "replicas": plan.replicas_in_words, **row})
    faults: list[Row] = []
    events: list[Row] = []
    if outcome.fault_phase is not None:
        found = fault_rows(outcome.fault_phase.records, outcome.fault_phase.faults)
        faults = [{"plan": FAULTED, "title": _fault_title(row), **row} for row in found]
        events = [{"t": round(event.t, 4), "kind": event.kind} for event in outcome.fault_phase.faults]
    return {
        "rows": rows,
        "accuracy": accuracy_rows(artifacts),
        "faults": faults,
        "fault_events": events,
        "warnings": warnings(plans, outcome),
        "run": {
            **load,
            "cores": os.cpu_count(),
            "platform": platform.system(),
            "python": platform.python_version(),
            "ray": version("ray"),
            "latency": "from the planned send time to the last byte of the response",
            "percentile": "nearest rank over all planned queries, failed ones infinitely late",
        },
    }


def warnings(plans: Sequence[DemoPlan], outcome: Outcome) -> list[str]:
    """Reasons to distrust the figures, one sentence each; empty if there are none."""
    titles = {plan.name: plan.title for plan in plans} | {"faults": "Faults"}
    phases = dict(outcome.phases)
    if outcome.fault_phase is not None:
        phases["faults"] = outcome.fault_phase
    found = []
    for name, phase in phases.items():
        late_ms = send_lateness_p99(phase.records) * 1e3
        if late_ms > LAG_LIMIT_S * 1e3:
            found.append(
                f"{titles[name]}: the load generator fell behind its plan (99th percentile {late_ms:.0f} ms, "
                f"limit {LAG_LIMIT_S * 1e3:.0f} ms), so it measured itself."
            )
        if phase.cpu_busy > CPU_LIMIT:
            found.append(
                f"{titles[name]}: the machine's cores were {100 * phase.cpu_busy:.0f} % busy, so latency is "
                "partly the wait for a CPU."
            )
        failed = failures(phase.records)
        if failed:
            reasons = ", ".join(sorted({r.error for r in phase.records if not r.answered})[:3])
            found.append(f"{titles[name]}: {failed} of {len(phase.records)} queries failed ({reasons}).")
    return found


def build_report(plans: Sequence[DemoPlan], outcome: Outcome, document: Mapping[str, Any]) -> Report:
    """The contents of the page."""
    titles = {plan.name: plan.title for plan in plans} | {"faults": "While a replica stalls and another dies"}
    faulted = outcome.fault_phase
    run = document["run"]
    return Report(
        rate=run["rate"],
        plans=document["rows"],
        runs={name: phase.records for name, phase in outcome.phases.items()},
        accuracy=document["accuracy"],
        faults=document["faults"],
        fault_records=faulted.records if faulted else (),
        fault_events=faulted.faults if faulted else (),
        groups={titles[name]: choose(traces, GROUPS_SHOWN) for name, traces in outcome.groups.items()},
        warnings=document["warnings"],
        setting=_setting(plans, run, document["rows"]),
    )


def _setting(plans: Sequence[DemoPlan], run: Mapping[str, Any], rows: Sequence[Row]) -> list[tuple[str, str]]:
    emulate = plans[0].settings.model.emulate
    slow = emulate.slowness
    busiest = max((row["cpu_busy"] for row in rows), default=0.0)
    return [
        ("Latency", run["latency"] + "; open loop: no query waits for another."),
        ("Percentiles", run["percentile"] + "."),
        (
            "Arrivals",
            f"Poisson, {run['rate']:g} queries per second, seed {run['seed']}; the same for every plan.",
        ),
        (
            "Calls",
            f"A real forward pass, stretched to {emulate.service_ms:g} ms (emulated accelerator); in every "
            f"pool {100 * slow.share:g} % of the calls take {slow.factor:g} times that.",
        ),
        ("Utilisation", "Busy slot-seconds of the deployed pool over (replicas x seconds), from the server."),
        ("Errors", "Queries without an answer. Default answers would be answers, and counted apart."),
        (
            "Machine",
            f"{run['cores']} cores, at most {100 * busiest:.0f} % busy; Ray {run['ray']}, "
            f"Python {run['python']}; client, proxy and all replicas share it.",
        ),
    ]


def _fault_title(row: Row) -> str:
    if row["fault"] == "whole phase":
        return "whole phase"
    words = {"stall": "while one replica was stopped", "kill": "after one replica was killed"}
    return f"{words[row['fault']]} ({row['from_s']:.0f} to {row['to_s']:.0f} s)"
