"""Ray Serve metrics of a fleet: every weight, penalty, budget and shed decision."""

from __future__ import annotations

from ray.serve import metrics

from parm_ray.routing.fleet.snapshot import Snapshot
from parm_ray.routing.planes import FrontEnd
from parm_ray.serve.fleet.signals import EngineSignals
from parm_ray.serve.metrics import keys


class FrontEndMetrics:
    """One front end's."""

    def __init__(self, front_end: str) -> None:
        self._tags = {"front_end": front_end}
        self._calls = metrics.Counter(
            "parm_fleet_calls",
            description="Calls sent to engines, by how they ended.",
            tag_keys=keys("front_end", "engine", "outcome"),
        )
        self._shed = metrics.Counter(
            "parm_fleet_shed", description="Requests turned away.", tag_keys=keys("front_end", "demand")
        )
        self._weight = metrics.Gauge(
            "parm_fleet_weight",
            description="Share of a demand that goes to an engine by the plan in use.",
            tag_keys=keys("front_end", "demand", "engine"),
        )
        self._in_flight = metrics.Gauge(
            "parm_fleet_in_flight",
            description="Calls that are out at an engine.",
            tag_keys=keys("front_end", "engine"),
        )
        self._budget = metrics.Gauge(
            "parm_fleet_retry_ratio",
            description="Second calls that are granted per request.",
            tag_keys=keys("front_end"),
        )
        self._age = metrics.Gauge(
            "parm_fleet_plan_age_s",
            description="Seconds since the plan in use was made known.",
            tag_keys=keys("front_end"),
        )

    def called(self, engine: str, outcome: str) -> None:
        """A call to an engine has ended: ok, failed, withdrawn."""
        self._calls.inc(1, tags={**self._tags, "engine": engine, "outcome": outcome})

    def shed(self, demand: str) -> None:
        """A request was turned away."""
        self._shed.inc(1, tags={**self._tags, "demand": demand})

    def report(self, front_end: FrontEnd, now: float) -> None:
        """Set the gauges. Called every interval."""
        self._budget.set(front_end.budget.ratio, tags=self._tags)
        self._age.set(front_end.age_s(now), tags=self._tags)
        for name, count in zip(front_end.engines, front_end.in_flight.tolist(), strict=True):
            self._in_flight.set(count, tags={**self._tags, "engine": name})
        for demand, weights in front_end.weights().items():
            for name, weight in weights.items():
                self._weight.set(weight, tags={**self._tags, "demand": demand, "engine": name})


class ControlMetrics:
    """The control plane's."""

    def __init__(self) -> None:
        self._version = metrics.Gauge("parm_fleet_version", description="Of the last plan.")
        self._failed = metrics.Counter(
            "parm_fleet_failed_decisions", description="Intervals in which no plan could be made."
        )
        self._engine = {
            name: metrics.Gauge(f"parm_fleet_engine_{name}", description=what, tag_keys=keys("engine"))
            for name, what in (
                ("utilization", "Of an engine's ready replicas, as it says itself, 0..1."),
                ("queued", "Calls that wait at an engine."),
                ("ttft_s", "Mean time to an engine's first token."),
                ("tbt_s", "Mean time between two of an engine's tokens."),
            )
        }
        self._latency = metrics.Gauge("parm_fleet_expected_ms", description="Latency that the plan expects.")
        self._penalty = metrics.Gauge(
            "parm_fleet_penalty",
            description="What is left of an engine's weight, 1 = all.",
            tag_keys=keys("engine"),
        )
        self._load = metrics.Gauge(
            "parm_fleet_load",
            description="Requests per second planned for an engine.",
            tag_keys=keys("engine"),
        )
        self._shed = metrics.Gauge(
            "parm_fleet_planned_shed",
            description="Requests per second of a demand that the plan sheds.",
            tag_keys=keys("demand"),
        )

    def failed(self) -> None:
        """No plan could be made."""
        self._failed.inc(1)

    def signals(self, engine: str, said: EngineSignals) -> None:
        """An engine has said how it is."""
        for name, gauge in self._engine.items():
            if (value := getattr(said, name)) is not None:
                gauge.set(value, tags={"engine": engine})

    def report(self, snapshot: Snapshot) -> None:
        """Set the gauges."""
        self._version.set(snapshot.version)
        self._latency.set(1e3 * snapshot.mean_s)
        for name, load in zip(snapshot.engines, snapshot.loads.tolist(), strict=True):
            self._load.set(load, tags={"engine": name})
            self._penalty.set(snapshot.penalties.get(name, (1.0, ""))[0], tags={"engine": name})
        for demand, shed in zip(snapshot.demands, snapshot.shed.tolist(), strict=True):
            self._shed.set(shed, tags={"demand": demand})
