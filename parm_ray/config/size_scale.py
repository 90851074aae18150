"""A scenario on a fraction of the machines: the same loads on fewer replicas."""

from __future__ import annotations

from typing import Any

from parm_ray.config.scenario import Scenario
from parm_ray.core import ConfigError


def shrunk(scenario: Scenario, factor: int) -> Scenario:
    """Return the scenario with every pool, and every rate, `factor` times smaller; loads and times stay.

    Nodes of the lab go down by the same factor and shuffles, at least one, in proportion. A small pool is
    not a large one: at the same load more of its calls find all replicas busy. Raises ConfigError for pools
    that do not divide.
    """
    if factor < 1:
        raise ConfigError(f"shrink: expected a whole number >= 1, got {factor}")
    if factor == 1:
        return scenario
    given = scenario.model_dump(mode="json", exclude_unset=True)
    given["m"] = _part(scenario.m, factor, "m")
    for plan in given["plans"]:
        for pool in ("deployed", "parity", "backup"):
            if plan.get(pool) is not None:
                plan[pool] = _part(plan[pool], factor, f"plans.{plan['name']}.{pool}")
    given["rates"] = [rate / factor for rate in scenario.rates]
    _shrink(given.get("lab"), "model_nodes", factor)
    _shrink(given.get("shuffles"), "concurrent", factor)
    _shrink(given.get("second_model"), "nodes", factor)
    if scenario.second_model is not None:
        given["second_model"]["rate"] /= factor
    return Scenario.model_validate(given)


def _part(whole: int, factor: int, name: str) -> int:
    if whole % factor:
        raise ConfigError(f"shrink: {name}: {whole} replicas do not divide by {factor}")
    return whole // factor


def _shrink(given: dict[str, Any] | None, name: str, factor: int) -> None:
    if given is not None and isinstance(given.get(name), int):
        given[name] = max(1, round(given[name] / factor))
