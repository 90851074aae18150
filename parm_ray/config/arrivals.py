"""When a scenario's queries are planned to arrive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from parm_ray.config.strict import Strict
from parm_ray.config.trace_files import Holds, planned_from
from parm_ray.core import ConfigError
from parm_ray.workload import bursts, constant, poisson


class ArrivalSettings(Strict):
    """Arrivals at a given mean rate: `poisson`, `constant`, `bursts`, or a recorded `trace`.

    burst, spacing_ms: queries of a burst, and the time between two of them; bursts begin as a Poisson
    process. trace: a CSV, Parquet or npy file, its path from where the command runs; holds: arrival
    `times` in seconds, `timestamps`, or `counts` per `bin_s` seconds; column: which, if there are several.
    A trace of arrivals is stretched to the rate, one of counts is thinned or thickened to it.
    """

    kind: Literal["poisson", "constant", "bursts", "trace"] = "poisson"
    burst: Annotated[int, Field(ge=1, le=100_000)] = 10
    spacing_ms: Annotated[float, Field(ge=0, le=3_600_000)] = 0.0
    trace: Path | None = None
    holds: Holds = "times"
    column: str | None = None
    bin_s: Annotated[float, Field(gt=0, le=86_400)] = 1.0

    @model_validator(mode="after")
    def _has_its_trace(self) -> ArrivalSettings:
        if (self.kind == "trace") != (self.trace is not None):
            raise ValueError(f"trace: expected a file for kind trace and no other, got {self.trace}")
        for name, kind in (
            ("burst", "bursts"),
            ("spacing_ms", "bursts"),
            ("holds", "trace"),
            ("bin_s", "trace"),
        ):
            if self.kind != kind and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name}: expected for kind {kind} alone, got it for {self.kind}")
        return self

    def planned(self, rate: float, rng: np.random.Generator, n: int) -> NDArray[np.float64]:
        """Return n times in seconds, ascending, at `rate` queries per second on average.

        A trace of counts gives about n: what it says of n / rate seconds, at random. Raises ConfigError
        for a trace that cannot be read or is too short.
        """
        if self.kind == "constant":
            return constant(rate, n=n)
        if self.kind == "bursts":
            return bursts(rate, self.burst, rng, spacing=self.spacing_ms / 1e3, n=n)
        if self.trace is None:
            return poisson(rate, rng, n=n)
        try:
            return planned_from(
                self.trace,
                holds=self.holds,
                column=self.column,
                rate=rate,
                duration=n / rate,
                bin_s=self.bin_s,
                rng=rng,
            )
        except ModuleNotFoundError:
            raise ConfigError("arrivals.trace: reading it takes pyarrow (the extra `load`)") from None
        except OSError as error:
            raise ConfigError(f"arrivals.trace: {self.trace} cannot be read ({error.strerror})") from None
        except ValueError as error:
            raise ConfigError(f"arrivals.trace: {error}") from None
