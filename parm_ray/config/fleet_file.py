"""A fleet in a YAML file: front ends and their demands, engines, the network between regions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from parm_ray.config.fleet_simulation import SimulationSettings
from parm_ray.config.planes import ControlSettings, DataPlaneSettings
from parm_ray.config.strict import Strict
from parm_ray.config.yaml_file import read_model
from parm_ray.core import ConfigError
from parm_ray.routing.fleet import MG1, MM1, Demand, Engine, EngineLatency, Fleet, MGc, Profile
from parm_ray.routing.planes.control import Policy
from parm_ray.sim.fleet import FleetRun

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Rate = Annotated[float, Field(ge=0, le=1e9)]
Positive = Annotated[float, Field(gt=0, le=1e9)]


class LatencySettings(Strict):
    """How long requests take at an engine of `rate` requests per second, by load.

    kind: mm1; mg1 (any service time, squared coefficient of variation cv2); mgc (`servers` of them); profile:
    measured at `loads`, requests per second from 0, as `seconds`, or as ttft_s, the time to the first token,
    and tbt_s, the time between two, for answers of `tokens`.
    """

    kind: Literal["mm1", "mg1", "mgc", "profile"] = "mm1"
    rate: Positive | None = None
    cv2: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    servers: Annotated[int, Field(ge=1, le=100_000)] | None = None
    loads: tuple[Rate, ...] = ()
    seconds: tuple[Positive, ...] = ()
    ttft_s: tuple[Positive, ...] = ()
    tbt_s: tuple[Positive, ...] = ()
    tokens: Annotated[float, Field(ge=0, le=1e9)] = 0.0

    @model_validator(mode="after")
    def _fits_its_kind(self) -> LatencySettings:
        profile = self.kind == "profile"
        if profile != (self.rate is None):
            raise ValueError(
                f"rate: expected {'none, the loads say it,' if profile else 'one'} for {self.kind}"
            )
        if (self.kind == "mgc") != (self.servers is not None):
            raise ValueError(f"servers: expected for mgc and no other, got {self.servers}")
        if profile and bool(self.seconds) == bool(self.ttft_s):
            raise ValueError("seconds: expected them, or ttft_s with tbt_s, for a profile")
        self.latency()
        return self

    def latency(self) -> EngineLatency:
        """Return the model. Raises ValueError for a profile that is none."""
        if self.rate is None:
            if len(self.ttft_s) != len(self.tbt_s):
                raise ValueError(f"tbt_s: expected as many as ttft_s, got {len(self.tbt_s)}")
            pairs = zip(self.ttft_s, self.tbt_s, strict=True)
            return Profile(self.loads, self.seconds or tuple(t + self.tokens * b for t, b in pairs))
        if self.kind == "mgc":
            return MGc(self.rate, self.servers or 1, self.cv2)
        return MM1(self.rate) if self.kind == "mm1" else MG1(self.rate, self.cv2)


class DemandSettings(Strict):
    """Requests per second of one kind; see `routing.fleet.Demand`."""

    rate: Rate
    name: Name = "default"
    needs: frozenset[Name] = frozenset()
    shed_price_s: Positive = 10.0


class FrontEndSettings(Strict):
    """A front end: where it is, and what it has to route; region None = its own name."""

    region: Name | None = None
    demands: tuple[DemandSettings, ...] = Field(min_length=1)


class EngineSettings(Strict):
    """An engine: where it is, how fast, what it can; region None = its own name.

    app: the Serve application whose ingress answers; None = named like the engine.
    """

    region: Name | None = None
    app: str | None = Field(default=None, min_length=1)
    latency: LatencySettings
    has: frozenset[Name] = frozenset()
    health: Annotated[float, Field(ge=0, le=1)] = 1.0


class FleetSettings(Strict):
    """A fleet.

    network_ms: round trips between regions; one direction stands for both, null = out of reach. control,
    data_plane: how weights are made, and used; a cluster's and a simulation's business. simulation: what
    `parm-ray routing simulate` plays.
    """

    front_ends: dict[Name, FrontEndSettings] = Field(min_length=1)
    engines: dict[Name, EngineSettings] = Field(min_length=1)
    network_ms: dict[Name, dict[Name, Annotated[float, Field(ge=0, le=3_600_000)] | None]]
    max_utilization: Annotated[float, Field(gt=0, le=1)] = 0.95
    switching_ms: Annotated[float, Field(ge=0, le=3_600_000)] = 0.0
    control: ControlSettings = ControlSettings()
    data_plane: DataPlaneSettings = DataPlaneSettings()
    simulation: SimulationSettings = SimulationSettings()

    @model_validator(mode="after")
    def _is_a_fleet(self) -> FleetSettings:
        self.fleet()
        # What comes less often than that would be stale between two of it.
        least_s = 2 * max(self.control.interval_ms, self.data_plane.pull_ms) / 1e3
        for section, stale_s in (("control", self.control.stale_s), ("data_plane", self.data_plane.stale_s)):
            if stale_s < least_s:
                raise ValueError(
                    f"{section}.stale_s: expected at least {least_s:g}, twice the longer of "
                    f"control.interval_ms and data_plane.pull_ms, got {stale_s:g}"
                )
        if self.control.penalty.patience * self.control.interval_ms < 2 * self.data_plane.pull_ms:
            raise ValueError(
                f"control.penalty.patience: expected so many intervals that front ends report twice within, "
                f"{2 * self.data_plane.pull_ms / self.control.interval_ms:g} or more, "
                f"got {self.control.penalty.patience}"
            )
        apps: dict[str, str] = {}
        for name, engine in self.engines.items():
            if (other := apps.setdefault(engine.app or name, name)) != name:
                raise ValueError(
                    f"engines.{name}.app: expected an application of its own, got that of {other}"
                )
        return self

    def fleet(self) -> Fleet:
        """Return the optimizer's problem."""
        demands, engines, rows = [], [], []
        for name, engine in self.engines.items():
            engines.append(Engine(name, engine.latency.latency(), engine.has, engine.health))
        for name, front_end in self.front_ends.items():
            here = front_end.region or name
            row = [self._round_trip_s(here, engine.region or n) for n, engine in self.engines.items()]
            for one in front_end.demands:
                demands.append(Demand(name, one.rate, one.name, one.needs, one.shed_price_s))
                rows.append(row)
        return Fleet(
            tuple(demands),
            tuple(engines),
            np.array(rows, dtype=np.float64),
            self.max_utilization,
            self.switching_ms / 1e3,
        )

    def fleet_run(self, seed: int | None = None) -> FleetRun:
        """Return the simulation. Raises ValueError for what it cannot play."""
        told = self.simulation
        seed = told.seed if seed is None else seed
        if self.data_plane.retry.hedge_after_ms is not None:
            raise ValueError("data_plane.retry.hedge_after_ms: expected null, hedges are not simulated")
        return FleetRun(
            self.fleet(),
            self.control.rule(),
            self.data_plane.rule(),
            told.duration_s,
            told.warm_up_s,
            self.control.interval_ms / 1e3,
            told.delay_intervals,
            told.replicas,
            told.keys,
            told.fail_ms / 1e3,
            tuple(change.change() for change in told.changes),
            told.background(list(self.engines), list(self.front_ends), seed),
            seed,
        )

    def _round_trip_s(self, here: str, there: str) -> float:
        for a, b in ((here, there), (there, here)):
            if b in self.network_ms.get(a, {}):
                found = self.network_ms[a][b]
                return float("nan") if found is None else found / 1e3
        raise ValueError(
            f"network_ms.{here}.{there}: expected a round trip in milliseconds, or null, got none"
        )


class FrontEndArguments(Strict):
    """`args:` of an application built by `parm_ray.serve.fleet.app:front_end`.

    name: of the front end in the fleet. control: the control plane's application.
    """

    fleet: FleetSettings
    name: Name
    control: str = Field(default="control", min_length=1)
    replicas: Annotated[int, Field(ge=1, le=1000)] = 1
    num_cpus: Annotated[float, Field(ge=0)] = 1.0
    max_ongoing_requests: Annotated[int, Field(ge=1)] = 1000
    max_body_bytes: Annotated[int, Field(ge=1024)] = 32 * 1024 * 1024

    @model_validator(mode="after")
    def _is_one_of_the_fleet(self) -> FrontEndArguments:
        if self.name not in self.fleet.front_ends:
            known = ", ".join(self.fleet.front_ends)
            raise ValueError(f"name: expected a front end of the fleet ({known}), got {self.name}")
        return self


def load_fleet(path: Path) -> Fleet:
    """Read a fleet file. Raises ConfigError naming the file and the entry."""
    return read_model(path, FleetSettings).fleet()


def load_fleet_run(path: Path, seed: int | None = None, policy: Policy | None = None) -> FleetRun:
    """Read a fleet file and return its simulation, with another seed or policy where they are given.

    Raises ConfigError naming the file and the entry.
    """
    settings = read_model(path, FleetSettings)
    try:
        run = settings.fleet_run(seed)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    return run if policy is None else replace(run, control=replace(run.control, policy=policy))
