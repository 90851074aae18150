"""What happens to a simulated fleet, in its file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from parm_ray.config.strict import Millis, Strict
from parm_ray.sim.fleet import Change, Daily, Incidents


class ChangeSettings(Strict):
    """From at_s seconds on something is different; see `sim.fleet.Change` for what `value` is of each kind.

    name: of an engine, or, for demand and silent, of a front end; none for control.
    """

    at_s: Annotated[float, Field(ge=0, le=1e7)]
    kind: Literal["slow", "dead", "failing", "demand", "control", "silent"]
    value: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    name: str = ""

    def change(self) -> Change:
        """Return it as the simulator takes it. Raises ValueError for a value that its kind has not."""
        return Change(self.at_s, self.kind, self.value, self.name)


class DailySettings(Strict):
    """Demand that rises and falls with the day; see `sim.fleet.Daily`."""

    amplitude: Annotated[float, Field(ge=0, le=1)]
    period_s: Annotated[float, Field(gt=0, le=1e7)] = 86_400.0
    step_s: Annotated[float, Field(gt=0, le=1e7)] = 60.0

    @model_validator(mode="after")
    def _fits(self) -> DailySettings:
        self.daily()
        return self

    def daily(self) -> Daily:
        """Return it as the simulator takes it."""
        return Daily(**self.model_dump())


class IncidentSettings(Strict):
    """What goes wrong now and then; see `sim.fleet.Incidents`."""

    per_hour: Annotated[float, Field(ge=0, le=1e4)] = 0.0
    silent_per_hour: Annotated[float, Field(ge=0, le=1e4)] = 0.0
    mean_s: Annotated[float, Field(gt=0, le=1e7)] = 120.0
    slow: Annotated[float, Field(gt=0, le=1e6)] = 10.0

    def incidents(self) -> Incidents:
        """Return it as the simulator takes it."""
        return Incidents(**self.model_dump())


class SimulationSettings(Strict):
    """A run in virtual time; see `sim.fleet.FleetRun`."""

    duration_s: Annotated[float, Field(gt=0, le=1e7)] = 60.0
    warm_up_s: Annotated[float, Field(ge=0, le=1e7)] = 0.0
    delay_intervals: Annotated[int, Field(ge=0, le=1000)] = 0
    replicas: Annotated[int, Field(ge=1, le=1000)] = 1
    keys: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    fail_ms: Millis = 1.0
    seed: Annotated[int, Field(ge=0)] = 0
    changes: tuple[ChangeSettings, ...] = ()
    daily: DailySettings | None = None
    incidents: IncidentSettings | None = None

    @model_validator(mode="after")
    def _one_says_the_demand(self) -> SimulationSettings:
        if self.daily is not None and any(change.kind == "demand" for change in self.changes):
            raise ValueError("daily: expected none beside changes of the demand")
        return self

    def background(self, engines: Sequence[str], front_ends: Sequence[str], seed: int) -> tuple[Change, ...]:
        """Return what happens by the day and by chance."""
        found: list[Change] = []
        if self.daily is not None:
            found += self.daily.daily().changes(front_ends, self.duration_s)
        if self.incidents is not None:
            found += self.incidents.incidents().changes(engines, front_ends, self.duration_s, seed)
        return tuple(found)
