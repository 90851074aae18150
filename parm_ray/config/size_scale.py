"""A scenario on a fraction of the machines: the same loads on fewer replicas."""

from __future__ import annotations

from pydantic import ValidationError

from parm_ray.config.scenario import Scenario
from parm_ray.core import ConfigError


def shrunk(scenario: Scenario, factor: int) -> Scenario:
    """Return the scenario with every pool, and every rate, `factor` times smaller; loads and times stay.

    Nodes of the lab, shuffles and the nodes of a second model go down in proportion, at least one each; its
    queries go with its nodes. A small pool is not a large one: at the same load more of its calls find all
    replicas busy. Raises ConfigError for pools that do not divide, a lab or shuffles that do not say how
    many, and faults of replicas that are no longer there.
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
    for section, name in (("lab", "model_nodes"), ("shuffles", "concurrent")):
        if given.get(section) is not None:
            if name not in given[section]:
                raise ConfigError(f"{scenario.name}: {section}.{name}: expected one to shrink, got none")
            given[section][name] = max(1, round(given[section][name] / factor))
    if (second := scenario.second_model) is not None:
        nodes = max(1, round(second.nodes / factor))
        given["second_model"] = {"nodes": nodes, "rate": second.rate * nodes / second.nodes}
    try:
        return Scenario.model_validate(given)
    except ValidationError as error:
        # The number of a replica that a fault is aimed at says nothing of a smaller pool.
        raise ConfigError(f"{scenario.name}: shrink: {error.errors()[0]['msg']}") from None


def _part(whole: int, factor: int, name: str) -> int:
    if whole % factor:
        raise ConfigError(f"shrink: {name}: {whole} replicas do not divide by {factor}")
    return whole // factor
