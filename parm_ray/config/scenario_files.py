"""A scenario file as a command is given it: with overrides, on fewer machines, in slow motion."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from parm_ray.config.scenario import Scenario, load_scenario
from parm_ray.config.size_scale import shrunk
from parm_ray.config.time_scale import slowed


def scenario_file(path: Path, overrides: Sequence[str] = (), shrink: int = 1, scale: float = 1.0) -> Scenario:
    """Read a scenario; see `overridden`, `shrunk` and `slowed`. Raises ConfigError."""
    return slowed(shrunk(load_scenario(path, overrides), shrink), scale)
