"""What happens to a simulated fleet, in its file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from parm_ray.config.strict import Millis, Strict
from parm_ray.sim.fleet import Change


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
