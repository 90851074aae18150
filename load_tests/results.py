"""From records to result rows, and `results.json`.

Units are in the names: `_ms` milliseconds; shares, accuracies and utilisations are 0..1. A percentile
that falls among the failed is infinite and written as null.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from load_tests import client
from load_tests.faults import FaultEvent
from load_tests.phase import Phase
from load_tests.records import ClientRecord, failures, latencies
from parm_ray.core import Outcome
from parm_ray.stats import bootstrap_interval, percentile, summarise

Row = dict[str, Any]

# Neighbouring queries share stalls and queues: resample runs of this many.
BLOCK = 25


def latency_row(records: Sequence[ClientRecord]) -> Row:
    """Latency, errors and answers of a run; raises ValueError for no records."""
    summary = summarise(latencies(records), failures(records))
    answered = [r for r in records if r.answered]
    stand_ins = [r for r in answered if r.outcome is Outcome.RECONSTRUCTED]
    return {
        "queries": summary.n,
        "mean_ms": _ms(summary.mean),
        "p50_ms": _ms(summary.p50),
        "p90_ms": _ms(summary.p90),
        "p99_ms": _ms(summary.p99),
        "p995_ms": _ms(summary.p99_5),
        "p999_ms": _ms(summary.p99_9),
        "errors": summary.failed,
        "error_reasons": dict(Counter(r.error for r in records if not r.answered).most_common(5)),
        "reconstructed": len(stand_ins),
        "reconstructed_share": _share(len(stand_ins), len(answered)),
        "accuracy": _accuracy(answered),
        "accuracy_reconstructed": _accuracy(stand_ins),
        "send_lateness_p99_ms": _ms(client.send_lateness_p99(records)),
        "generator_lagged": client.lagged(records),
    }


def plan_row(plan: str, m: int, n: int, phase: Phase, seed: int = 0) -> Row:
    """The row of one plan: m replicas of the deployed model would do without redundancy, n run in all."""
    agreement = phase.after.get("agreement", {})
    return {
        "plan": plan,
        "m": m,
        "n": n,
        **latency_row(phase.records),
        "p99_interval_ms": _interval(phase.records, 0.99, seed),
        "utilization": _round(phase.utilisation()),
        "utilization_parity": _round(phase.utilisation("parity0")),
        "agreed": agreement.get("agreed"),
        "compared": agreement.get("total"),
        "cpu_busy": _round(phase.cpu_busy),
    }


def fault_rows(
    records: Sequence[ClientRecord], events: Sequence[FaultEvent], settle_s: float = 5.0
) -> list[Row]:
    """One row for the whole run and one for the queries planned during each fault.

    During: from the fault until it ends (a stall) or `settle_s` seconds after it (a kill).
    """
    rows: list[Row] = [{"fault": "whole phase", "from_s": 0.0, "to_s": None, **latency_row(records)}]
    for event in events:
        if event.kind == "resume":
            continue
        end = event.t + settle_s
        if event.kind == "stall":
            end = min((e.t for e in events if e.kind == "resume" and e.pid == event.pid), default=end)
        during = [r for r in records if event.t <= r.planned < end]
        if during:
            rows.append({"fault": event.kind, "from_s": event.t, "to_s": end, **latency_row(during)})
    return rows


def accuracy_rows(artifacts: Path) -> list[Row]:
    """A_a (deployed model) and A_d (reconstructions) from the manifests of the artefacts in a directory."""
    rows = []
    for path in sorted(artifacts.glob("*/manifest.json")):
        manifest = json.loads(path.read_text())
        code, metrics = manifest.get("code"), manifest.get("metrics", {})
        # A code of several parity rows has an artefact for each; what it recovers is the code's, said once.
        if code and "a_d" in metrics and code.get("row", 0) == 0:
            names = {
                "encoder": code["encoder"],
                "decoder": code["decoder"],
                "k": code["k"],
                "r": code.get("r", 1),
            }
            rows.append({**names, "a_a": metrics.get("a_a"), "a_d": metrics["a_d"]})
    return sorted(rows, key=lambda row: (row["k"], row["a_d"]))


def write_json(path: Path, document: Mapping[str, Any]) -> str:
    """Write the document, infinities and nans as null, and return the text."""
    text = json.dumps(_finite(document), indent=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
    return text


def _interval(records: Sequence[ClientRecord], q: float, seed: int) -> list[float]:
    values = np.array([r.latency_s for r in records])
    interval = bootstrap_interval(
        values,
        lambda v: percentile(v, q),
        np.random.default_rng(seed),
        resamples=500,
        block=min(BLOCK, len(values)),
    )
    return [_ms(interval.low), _ms(interval.high)]


def _accuracy(records: Sequence[ClientRecord]) -> float | None:
    judged = [r.correct for r in records if r.correct is not None]
    return _share(sum(judged), len(judged))


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 5) if whole else None


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3) if math.isfinite(seconds) else seconds


def _round(share: float) -> float:
    return round(share, 4) if math.isfinite(share) else share


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
