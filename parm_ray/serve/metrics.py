"""Ray Serve metrics of an ingress, and the plain counters behind its stats page.

Histograms have fine buckets: a p99 read off Serve's own (1, 2, 5, 10 ... ms) is a guess.
"""

from __future__ import annotations

from collections import Counter as Tally
from typing import Any

from ray.serve import metrics

from parm_ray.core import Outcome, QueryRecord

# 0.5 ms to 60 s in steps of about 12 %.
LATENCY_MS = [round(0.5 * 1.12**i, 3) for i in range(104)]
CODING_US = [1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300, 500, 800, 1200, 2000, 5000, 10000]


def keys(*names: str) -> Any:
    """Tag keys; Ray's annotation allows one only."""
    return names


class ServeObserver:
    """An Observer that feeds Ray's metrics and keeps totals for `/stats`."""

    def __init__(self, model: str, k: int) -> None:
        tags = {"model": model}
        self.outcomes: Tally[str] = Tally({o.value: 0 for o in Outcome})
        self.errors: Tally[str] = Tally()
        self.groups: Tally[str] = Tally({"sealed": 0, "closed_early": 0, "slots": 0})
        self.recorded_rows: Tally[str] = Tally()
        self.agreed = 0
        self.compared_total = 0
        self._plan: str | None = None
        self._answers = metrics.Counter(
            "parm_answers", description="Queries by outcome.", tag_keys=keys("model", "outcome")
        )
        self._latency = metrics.Histogram(
            "parm_latency_ms",
            description="Milliseconds from submission to answer, by outcome.",
            boundaries=LATENCY_MS,
            tag_keys=keys("model", "outcome"),
        )
        self._lateness = metrics.Histogram(
            "parm_lateness_ms",
            description="Milliseconds after the hold-off at which a reconstruction was used.",
            boundaries=LATENCY_MS,
            tag_keys=("model",),
        )
        self._rate = metrics.Gauge(
            "parm_reconstruction_rate",
            description="Share of answers that were reconstructions.",
            tag_keys=("model",),
        )
        self._agreement = metrics.Gauge(
            "parm_degraded_agreement",
            description="Share of reconstructions with the same top class as the late original.",
            tag_keys=("model",),
        )
        self._fill = metrics.Histogram(
            "parm_group_fill",
            description="Batches in a group when it was sealed.",
            boundaries=[i + 0.5 for i in range(1, max(2, k))],
            tag_keys=("model",),
        )
        self._wait = metrics.Histogram(
            "parm_group_wait_ms",
            description="Milliseconds from a group's first batch to its sealing.",
            boundaries=LATENCY_MS,
            tag_keys=("model",),
        )
        self._coding = metrics.Histogram(
            "parm_coding_us",
            description="Microseconds of one encode or decode.",
            boundaries=[float(b) for b in CODING_US],
            tag_keys=keys("model", "stage"),
        )
        self._recorded = metrics.Counter(
            "parm_recorded_queries",
            description="Queries drawn for recording, by what became of them.",
            tag_keys=keys("model", "result"),
        )
        self._shadows = metrics.Counter(
            "parm_shadow_calls",
            description="Batches drawn to be run twice for measuring, by what became of them.",
            tag_keys=keys("model", "result"),
        )
        self._in_force = metrics.Gauge(
            "parm_plan_in_force",
            description="1 for the plan that new groups go by, 0 for those that were in force before.",
            tag_keys=keys("model", "plan"),
        )
        self._changes = metrics.Counter(
            "parm_plan_changes",
            description="Changes of the plan, by reason.",
            tag_keys=keys("model", "reason"),
        )
        self._queue = metrics.Gauge(
            "parm_queued_batches",
            description="Batches that wait for a replica.",
            tag_keys=keys("model", "pool"),
        )
        self._utilisation = metrics.Gauge(
            "parm_pool_utilisation",
            description="Share of a pool's slots in use, averaged since the last report.",
            tag_keys=keys("model", "pool"),
        )
        for metric in vars(self).values():
            if isinstance(metric, metrics.Counter | metrics.Gauge | metrics.Histogram):
                metric.set_default_tags(dict(tags))  # Serve adds its own tags in place

    def resolved(self, record: QueryRecord) -> None:
        """A query was answered, defaulted or failed."""
        outcome = record.outcome.value
        self.outcomes[outcome] += 1
        self._answers.inc(1, tags={"outcome": outcome})
        self._latency.observe(max(record.latency_s * 1e3, 1e-3), tags={"outcome": outcome})
        if record.error is not None:
            self.errors[record.error[:80]] += 1
            if len(self.errors) > 50:
                self.errors = Tally(dict(self.errors.most_common(25)))
        if record.outcome is Outcome.RECONSTRUCTED:
            self._lateness.observe(max(record.lateness_s * 1e3, 1e-3))

    def group_sealed(self, filled: int, wait_s: float, closed_early: bool) -> None:
        """A group stopped taking batches, `wait_s` after its first one."""
        self.groups["sealed"] += 1
        self.groups["closed_early"] += closed_early
        self.groups["slots"] += filled
        self._fill.observe(filled)
        self._wait.observe(max(wait_s * 1e3, 1e-3))

    def coded(self, stage: str, seconds: float) -> None:
        """One encode or decode took `seconds`."""
        self._coding.observe(max(seconds * 1e6, 1e-3), tags={"stage": stage})

    def compared(self, agreed: int, total: int) -> None:
        """A late original arrived: `agreed` of `total` reconstructions had its top class."""
        self.agreed += agreed
        self.compared_total += total

    def recorded(self, result: str, rows: int) -> None:
        """`rows` queries that were drawn for recording were written, or not: `result`."""
        self.recorded_rows[result] += rows
        self._recorded.inc(rows, tags={"result": result})

    def shadowed(self, result: str) -> None:
        """A batch that was drawn to be run twice has been, or not: `result`."""
        self._shadows.inc(1, tags={"result": result})

    def plan_in_force(self, plan: str, reason: str | None = None) -> None:
        """New groups go by this plan, changed to for `reason`; None = from the start."""
        if self._plan is not None:
            self._in_force.set(0, tags={"plan": self._plan})
        self._in_force.set(1, tags={"plan": plan})
        self._plan = plan
        if reason is not None:
            self._changes.inc(1, tags={"reason": reason})

    def report(self, pools: dict[str, tuple[int, float]]) -> None:
        """Set the gauges; `pools` maps a name to (queued batches, utilisation 0..1). Called each second."""
        answers = sum(self.outcomes.values())
        if answers:
            self._rate.set(self.outcomes[Outcome.RECONSTRUCTED.value] / answers)
        if self.compared_total:
            self._agreement.set(self.agreed / self.compared_total)
        for name, (queued, utilisation) in pools.items():
            self._queue.set(queued, tags={"pool": name})
            self._utilisation.set(utilisation, tags={"pool": name})
