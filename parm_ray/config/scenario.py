"""A scenario: one experiment, typed, in one YAML file; carried out on a cluster or in the simulator.

Which plans, at which loads, over how many replicas, how long calls take and how some are slowed down.
Whoever carries it out adds only where: nothing here names a machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, field_validator, model_validator

from parm_ray.config.arrivals import ArrivalSettings
from parm_ray.config.faults import FaultSettings
from parm_ray.config.settings import BatchSettings, PlanSettings, QueueSettings, Settings
from parm_ray.config.slowness import SlownessSettings
from parm_ray.config.strict import Count, Millis, PositiveMs, Strict
from parm_ray.config.yaml_file import read_model
from parm_ray.workload import ServiceTime, from_mapping

Load = Annotated[float, Field(gt=0, le=5)]
Rate = Annotated[float, Field(gt=0, le=1_000_000)]


class NetworkSettings(Strict):
    """What shuffles do to calls, for the simulator; a real run has links.

    hit: for each shuffle that its node takes part in, a call is delayed with this probability, 0..1;
    delay_ms: for how long on average, exponentially. `scenarios.paper.calibrate` finds both in the
    latencies of a run without redundancy.
    """

    hit: Annotated[float, Field(ge=0, le=1)]
    delay_ms: PositiveMs


class SecondModelSettings(Strict):
    """Inference multitenancy: another model's queries on some of the nodes, which share accelerators.

    nodes: on how many; rate: queries per second over all of them, Poisson, each as long as one of ours.
    """

    nodes: Count
    rate: Rate


class PathSettings(Strict):
    """What is neither queueing nor service, for the simulator; a real run has its own.

    overhead_ms: of the way to a replica and back, for every query; slot_ms: beyond service, for how long
    each call holds its replica's slot, which others queue for. encode_ms, decode_ms: of one group.
    cancel_ms: for how long a replica stays busy after a running call was called off; null = it cannot be.
    """

    overhead_ms: Millis = 0.0
    slot_ms: Millis = 0.0
    encode_ms: Millis = 0.0
    decode_ms: Millis = 0.0
    cancel_ms: Millis | None = None


class ScenarioPlan(Strict):
    """One plan. deployed, parity, backup: replicas of each pool; `parity` is per parity row.

    deadline_ms: in place of the scenario's, for a plan whose point it is.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    title: str | None = None
    plan: PlanSettings = PlanSettings()
    deployed: Count
    parity: Count | None = None
    backup: Count | None = None
    deadline_ms: PositiveMs | None = None

    @property
    def replicas(self) -> int:
        """Replicas in all."""
        return self.deployed + (self.parity or 0) * self.plan.r + (self.backup or 0)

    @property
    def replica_names(self) -> list[str]:
        """Return what faults call them: pool and number, such as deployed/0."""
        pools = {"deployed": self.deployed, "backup": self.backup or 0}
        pools |= {f"parity{row}": self.parity or 0 for row in range(self.plan.r)}
        return [f"{pool}/{number}" for pool, replicas in pools.items() for number in range(replicas)]

    @model_validator(mode="after")
    def _pools_fit_the_plan(self) -> ScenarioPlan:
        needs_parity = self.plan.kind == "coded" and self.plan.pool == "dedicated"
        if needs_parity != (self.parity is not None):
            wanted = "a number of replicas" if needs_parity else "none"
            raise ValueError(f"plans.{self.name}.parity: expected {wanted}, got {self.parity}")
        if (self.plan.kind == "backup") != (self.backup is not None):
            raise ValueError(f"plans.{self.name}.backup: expected replicas for kind backup and no other")
        return self


class Scenario(Strict):
    """One experiment.

    m: replicas of the deployed model that the load needs without redundancy; loads: shares of their
    capacity, or rates: queries per second; one of the two. queries: a repetition, of which the first
    `warm_up` do not count. service: how long calls of the deployed model take, {kind, ...} as
    `workload.from_mapping` takes it, seconds; parity_service, backup_service: of the other models, where
    they differ. seed: of arrivals and slow calls. The simulator draws both anew for
    each repetition and point; a real run draws the arrivals anew, and goes on along one script of slow
    calls, which a deployment is started with.
    artifacts: the directory of the models for a real run. lab, shuffles: nodes, links and background
    traffic, as `load_tests.netlab` and `load_tests.shuffles` take them; network: what the latter do, for
    the simulator, in which every replica has a node of its own. second_model: on a cluster, an application
    beside the plan's.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    title: str = ""
    m: Count
    loads: tuple[Load, ...] = ()
    rates: tuple[Rate, ...] = ()
    queries: Annotated[int, Field(ge=10, le=10_000_000)] = 5000
    warm_up: Annotated[int, Field(ge=0)] = 0
    repetitions: Annotated[int, Field(ge=1, le=100)] = 1
    seed: Annotated[int, Field(ge=0)] = 0
    arrivals: ArrivalSettings = ArrivalSettings()
    service: dict[str, Any]
    parity_service: dict[str, Any] | None = None
    backup_service: dict[str, Any] | None = None
    slowness: SlownessSettings = SlownessSettings()
    faults: tuple[FaultSettings, ...] = ()
    path: PathSettings = PathSettings()
    deadline_ms: PositiveMs = 5000.0
    batch: BatchSettings = BatchSettings()
    queue: QueueSettings = QueueSettings(max_queued=1_000_000)
    artifacts: str | None = None
    lab: dict[str, Any] | None = None
    shuffles: dict[str, Any] | None = None
    network: NetworkSettings | None = None
    second_model: SecondModelSettings | None = None
    plans: tuple[ScenarioPlan, ...] = Field(min_length=1)

    @field_validator("service", "parity_service", "backup_service")
    @classmethod
    def _is_a_service_time(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None:
            from_mapping(value, np.random.default_rng(0))
        return value

    @model_validator(mode="after")
    def _hangs_together(self) -> Scenario:
        if bool(self.loads) == bool(self.rates):
            raise ValueError(f"expected loads or rates, one of them, got {self.loads} and {self.rates}")
        if self.warm_up >= self.queries:
            raise ValueError(f"warm_up: expected fewer than queries ({self.queries}), got {self.warm_up}")
        replicas = {replica for plan in self.plans for replica in plan.replica_names}
        for fault in self.faults:
            if fault.replica not in replicas:
                raise ValueError(f"faults: {fault.replica}: no plan has that replica")
        names = [plan.name for plan in self.plans]
        if len(set(names)) < len(names):
            raise ValueError(f"plans: two have the same name: {names}")
        return self

    def service_time(self, which: str, rng: np.random.Generator) -> ServiceTime:
        """Return how long calls take, slow ones left out; which: deployed, parity or backup."""
        other = {"parity": self.parity_service, "backup": self.backup_service}.get(which)
        return from_mapping(other or self.service, rng)

    @property
    def mean_service_s(self) -> float:
        """Expected seconds of a call of the deployed model, slow ones counted in."""
        service = self.service_time("deployed", np.random.default_rng(0))
        return service.mean_s * self.slowness.mean_factor

    def script_seed(self, repetition: int, point: int) -> int:
        """Return the seed of the slow calls of one repetition at one point."""
        return (self.seed * 1000 + repetition) * 1000 + point

    def points(self) -> list[tuple[float, float]]:
        """Return (rate, load) of every point: queries per second, share of m replicas' capacity."""
        capacity = self.m / self.mean_service_s * self.batch.max_size
        if self.rates:
            return [(rate, rate / capacity) for rate in self.rates]
        return [(load * capacity, load) for load in self.loads]

    def settings_of(self, plan: ScenarioPlan) -> Settings:
        """Return what the simulator needs of a plan's settings; a real run has pools to add."""
        pools: dict[str, Any] = {"model": {"artifact": "-", "replicas": plan.deployed}}
        if plan.plan.kind == "coded":
            replicas = {} if plan.parity is None else {"replicas": plan.parity}
            pools["parity"] = [{"artifact": "-", **replicas}] * plan.plan.r
        if plan.backup is not None:
            pools["backup"] = {"artifact": "-", "replicas": plan.backup}
        return Settings.model_validate(
            {
                **pools,
                "plan": plan.plan,
                "batch": self.batch,
                "queue": self.queue,
                "deadline_ms": plan.deadline_ms or self.deadline_ms,
                "default_answer": "uniform" if plan.plan.kind == "default" else None,
            }
        )


def load_scenario(path: Path, overrides: Sequence[str] = ()) -> Scenario:
    """Read a scenario file, `KEY=VALUE` overrides on top. Raises ConfigError naming file and key."""
    return read_model(path, Scenario, overrides)
