"""Which calls are slow, and which servers for a while; for emulated accelerators and the simulator."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from parm_ray.config.strict import Seconds, Strict
from parm_ray.workload import (
    CallsAndEpisodes,
    HeavyTailedCalls,
    IndependentCalls,
    SlowEpisodes,
    SlownessScript,
)


class EpisodeSettings(Strict):
    """Correlated slowness: every server is slow for a while now and then; see `workload.SlowEpisodes`."""

    factor: Annotated[float, Field(ge=1)] = 10.0
    mean_s: Seconds
    mean_between_s: Seconds
    lasting: Literal["exponential", "lognormal"] = "exponential"
    sigma: Annotated[float, Field(ge=0, le=5)] = 1.0


class SlownessSettings(Strict):
    """Slow calls: a share of them, each by itself, takes `factor` times as long.

    shape: in place of one factor, Pareto factors of this shape, P(factor > x) = x^-shape, at most
    `at_most`. episodes: servers that are slow for a while; both at once multiply.
    """

    share: Annotated[float, Field(ge=0, le=1)] = 0.0
    factor: Annotated[float, Field(ge=1)] = 10.0
    shape: Annotated[float, Field(ge=0.05, le=100)] | None = None
    at_most: Annotated[float, Field(ge=1, le=1e6)] = 1000.0
    episodes: EpisodeSettings | None = None

    @model_validator(mode="after")
    def _says_nothing_in_vain(self) -> SlownessSettings:
        # A default that is written down does nothing: settings that were dumped whole can be read again.
        fields = type(self).model_fields
        given = {n for n in ("factor", "shape", "at_most") if getattr(self, n) != fields[n].default}
        if given and not self.share:
            raise ValueError(f"{sorted(given)[0]}: does nothing without a share")
        if {"factor", "shape"} <= given:
            raise ValueError("factor: not together with shape, which draws the factors")
        if "at_most" in given and self.shape is None:
            raise ValueError("at_most: does nothing without a shape")
        return self

    def script(self, seed: int) -> SlownessScript | None:
        """Return the script; None if nothing is ever slow."""
        calls: IndependentCalls | HeavyTailedCalls | None = None
        if self.share and self.shape is not None:
            calls = HeavyTailedCalls(seed, self.share, self.shape, self.at_most)
        elif self.share:
            calls = IndependentCalls(seed, self.share, self.factor)
        if self.episodes is None:
            return calls
        episodes = SlowEpisodes(seed, **self.episodes.model_dump())
        return episodes if calls is None else CallsAndEpisodes(calls, episodes)

    @property
    def mean_factor(self) -> float:
        """Expected factor."""
        script = self.script(0)
        return 1.0 if script is None else script.mean_factor
