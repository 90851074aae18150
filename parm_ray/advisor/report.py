"""Advice as plain data, for JSON and tables: milliseconds, shares."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from parm_ray.advisor.advice import Advice, Ranked


def report(advice: Advice) -> dict[str, Any]:
    """Return it as JSON-able data. Latencies in ms, loads and extra work as shares, null = not known."""
    best, runner_up = advice.best, advice.runner_up
    return {
        "objective": str(advice.objective),
        "rate_per_s": advice.workload.rate,
        "replicas": advice.workload.replicas,
        "utilization": advice.workload.utilisation,
        "advised": best.name,
        "reason": best.reason,
        "runner_up": None if runner_up is None else runner_up.name,
        "plans": [plan_row(one) for one in advice.ranked],
        "not_simulated": [{"plan": u.candidate.name, "refused": u.refused} for u in advice.unsimulated],
        "by_load": [
            {
                "load": at.load,
                "rate_per_s": at.rate,
                "advised": at.best,
                "objective_ms": {
                    name: None if seconds is None else _ms(seconds)
                    for name, seconds in at.objective_s.items()
                },
            }
            for at in advice.by_load
        ],
        "changes_at": [{"load": load, "plan": name} for load, name in advice.changes_at],
        "evidence": _evidence(advice),
        "warnings": list(advice.warnings),
    }


def plan_row(one: Ranked) -> dict[str, Any]:
    """Return one plan's figures."""
    plan = one.plan
    return {
        "plan": one.name,
        "kind": plan.kind,
        "deployed": one.candidate.deployed,
        "parity": "shared" if one.candidate.shared else one.candidate.parity,
        "objective_ms": _ms(one.objective_s),
        "objective_low_ms": _ms(one.interval.low) if one.interval else None,
        "objective_high_ms": _ms(one.interval.high) if one.interval else None,
        "over_none": [_finite(x) for x in one.over_none] if one.over_none else None,
        "mean_ms": _ms(one.mean_s),
        "p50_ms": _ms(one.p50_s),
        "p99_ms": _ms(one.p99_s),
        "p999_ms": _ms(one.p999_s),
        "cost_ms": _ms(one.work_s),
        "extra_work": one.extra_work,
        "load": one.load,
        "reconstructed": one.reconstructed,
        "accuracy_loss": one.accuracy_loss,
        "queries": one.queries,
        "refused": bool(one.refused),
        "reason": one.reason,
    }


def _evidence(advice: Advice) -> dict[str, Any]:
    found = advice.evidence
    return {
        "n": found.n,
        "mean_ms": _ms(found.mean_s),
        "cv2": _finite(found.cv2),
        "gini": found.gini,
        "two_copies_cost": found.two_copies,
        "two_copies_interval": found.two_copies_interval and list(found.two_copies_interval),
        "time_on_test_z": None if found.on_test is None else found.on_test.z,
        "log_tail": None if found.shape is None else found.shape.verdict,
        "convex_after_ms": None if found.shape is None else _ms(found.shape.convex_after_s),
        "pairs": None if found.pairs is None else {k: _plain(v) for k, v in asdict(found.pairs).items()},
        "heavy": found.heavy,
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None or not math.isfinite(seconds) else 1e3 * seconds


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _plain(value: Any) -> Any:
    return [float(x) for x in value] if isinstance(value, tuple | list) else float(value)
