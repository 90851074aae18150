"""A scenario in slow motion: what holds of it holds of the original, and the machine has less to do."""

from __future__ import annotations

from typing import Any

from parm_ray.config.scenario import Scenario
from parm_ray.config.settings import HedgeSettings
from parm_ray.core import ConfigError

_TIMES = ("_ms", "_s")
_PER_SECOND = ("_per_s", "_mbit", "rate")

_RTO_MIN_MS = 200.0
"""How soon at the earliest Linux's TCP sends again what is lost, where a lab says nothing else."""


def slowed(scenario: Scenario, factor: float) -> Scenario:
    """Return the scenario with every time `factor` times as long and every rate as many times lower.

    Loads, shares, bytes and numbers of queries stay, so that latencies divided by `factor` are those of
    the original wherever its times come from service, queues and links alone. What the machine itself
    needs for a query does not stretch: that is the use of it. Raises ConfigError for a factor out of
    range, or a lab whose links have no rate or latency given.
    """
    if not 0.01 <= factor <= 1000:
        raise ConfigError(f"scale: expected 0.01..1000, got {factor:g}")
    if factor == 1:
        return scenario
    given = scenario.model_dump(mode="json", exclude_unset=True)
    # Defaults that are times have to be written down before they can be stretched.
    given["deadline_ms"] = scenario.deadline_ms
    given["batch"] = {**given.get("batch", {}), "wait_ms": scenario.batch.wait_ms}
    if scenario.arrivals.kind == "trace":
        given["arrivals"]["bin_s"] = scenario.arrivals.bin_s
    for plan, settings in zip(scenario.plans, given["plans"], strict=True):
        if plan.plan.kind == "coded":
            settings["plan"]["fill_timeout_ms"] = plan.plan.fill_timeout_ms
        if plan.plan.hedge is not None or plan.plan.kind == "hedged":
            hedge = plan.plan.hedge or HedgeSettings()
            given_hedge = settings["plan"].get("hedge") or {}
            settings["plan"]["hedge"] = given_hedge | {"budget_floor_per_s": hedge.budget_floor_per_s}
    link = (scenario.lab or {}).get("link") or {}
    for key in ("rate_mbit", "latency_ms") if scenario.lab is not None else ():
        if key not in link:
            raise ConfigError(f"{scenario.name}: lab.link.{key}: expected one to scale, got none")
    if scenario.lab is not None:
        given["lab"] = {**scenario.lab, "link": {"rto_min_ms": _RTO_MIN_MS, **link}}
    stretched = _stretched(given, factor)
    stretched["rates"] = [rate / factor for rate in scenario.rates]
    return Scenario.model_validate(stretched)


def _stretched(value: Any, factor: float, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _stretched(inner, factor, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_stretched(inner, factor, key) for inner in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if key.endswith(_PER_SECOND):
        return value / factor
    return value * factor if key.endswith(_TIMES) else value
