"""What the control plane publishes and every front end reads: weights, with all that explains them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from parm_ray.routing.fleet.memory import Memory
from parm_ray.routing.fleet.routing import Routing
from parm_ray.routing.fleet.solve import Solution

Freshness = Literal["fresh", "stale", "expired"]

# Differences of shares below this are rounding.
_SEEN = 5e-5


class BadSnapshot(ValueError):
    """Not a snapshot, or one that was damaged on its way; the message says what is wrong."""


@dataclass(frozen=True)
class Snapshot:
    """One plan, complete in itself; installed by one assignment, so that nobody ever sees half of it.

    version: rises. created: seconds since 1970. ages_s: how old each input was then, seconds, by its name;
    null = it never came and a declared default stands for it. demands, engines: names, in the order of rows
    and columns. weights, network_s: `[demands, engines]`, the latter nan where there is no way; rates, shed:
    `[demands]`, requests per second; capacities, loads, prices_s: `[engines]`, requests per second and
    seconds; in_flight: `[engines]`, requests that are there at `capacities`, by Little's law. mean_s:
    expected latency; utilization: of all engines together, 0..1; binding: constraints that cost something;
    penalties: of the engines that have one, what is left of their weight, and why; replicas: of each front
    end; memory: what another control plane needs to go on from here.
    """

    version: int
    created: float
    ages_s: Mapping[str, float | None]
    demands: tuple[str, ...]
    engines: tuple[str, ...]
    weights: NDArray[np.float64]
    network_s: NDArray[np.float64]
    rates: NDArray[np.float64]
    shed: NDArray[np.float64]
    capacities: NDArray[np.float64]
    loads: NDArray[np.float64]
    prices_s: NDArray[np.float64]
    in_flight: NDArray[np.float64]
    mean_s: float
    utilization: float
    binding: tuple[str, ...]
    penalties: Mapping[str, tuple[float, str]]
    replicas: Mapping[str, int]
    memory: Memory = field(default_factory=Memory)

    @classmethod
    def of(
        cls,
        plan: Solution | Routing,
        *,
        version: int,
        created: float,
        ages_s: Mapping[str, float | None],
        penalties: Mapping[str, tuple[float, str]] | None = None,
        replicas: Mapping[str, int] | None = None,
        memory: Memory | None = None,
    ) -> Snapshot:
        """Return the snapshot of a plan; one that was not solved for has no prices and no constraints."""
        solution = plan if isinstance(plan, Solution) else None
        routing = plan.routing if isinstance(plan, Solution) else plan
        fleet, most = routing.fleet, routing.fleet.most
        limit = math.fsum(engine.limit for engine in fleet.engines)
        there = [engine.total(top) for engine, top in zip(fleet.engines, most.tolist(), strict=True)]
        return cls(
            version,
            created,
            dict(ages_s),
            tuple(map(str, fleet.demands)),
            tuple(engine.name for engine in fleet.engines),
            routing.weights,
            np.where(fleet.eligible, fleet.network_s, np.nan),
            fleet.rates,
            routing.shed,
            most,
            routing.loads,
            solution.prices if solution else np.full(len(fleet.engines), np.nan),
            np.array(there),
            routing.mean_s,
            float(routing.loads.sum()) / limit if limit else 1.0,
            tuple(solution.binding) if solution else (),
            dict(penalties or {}),
            dict(replicas or {}),
            memory or Memory(),
        )

    def to_json(self) -> str:
        """Return it as JSON, with its checksum."""
        content = self._content()
        return json.dumps({**content, "checksum": _checksum(content)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        """Return what `to_json` made.

        Raises BadSnapshot for anything else, for a wrong checksum, and for a table that cannot be routed by.
        """
        try:
            content = json.loads(text)
            checksum = content.pop("checksum")
            if _checksum(content) != checksum:
                raise BadSnapshot(f"version {content.get('version')}: its checksum does not fit its content")
            found = cls(
                **content
                | {name: _array(content[name]) for name in _ARRAYS}
                | {name: tuple(content[name]) for name in ("demands", "engines", "binding")}
                | {"mean_s": math.inf if content["mean_s"] is None else float(content["mean_s"])}
                | {
                    "penalties": {
                        name: (float(m), str(why)) for name, (m, why) in content["penalties"].items()
                    }
                }
                | {"memory": Memory.of_plain(content["memory"])}
            )
        except BadSnapshot:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadSnapshot(f"not a snapshot: {error}") from None
        _check(found)
        return found

    def _content(self) -> dict[str, Any]:
        lists = {name: _plain(getattr(self, name)) for name in _ARRAYS}
        rest = {
            "version": self.version,
            "created": self.created,
            "ages_s": dict(self.ages_s),
            "utilization": self.utilization,
            "penalties": {name: list(penalty) for name, penalty in self.penalties.items()},
            "replicas": dict(self.replicas),
            "memory": self.memory.plain(),
        }
        names = {"demands": list(self.demands), "engines": list(self.engines), "binding": list(self.binding)}
        return {**rest, **names, **lists, "mean_s": self.mean_s if math.isfinite(self.mean_s) else None}

    def explain(self, demand: str) -> list[str]:
        """Return in words why a demand goes where it goes: what each way costs, the cheapest first.

        Raises KeyError for a demand that there is not.
        """
        if demand not in self.demands:
            raise KeyError(f"demand: expected one of {', '.join(self.demands)}, got {demand}")
        row = self.demands.index(demand)
        costs = self.network_s[row] + self.prices_s
        lines = []
        for j in np.argsort(np.where(np.isnan(costs), np.inf, costs)):
            name, share = self.engines[j], self.weights[row, j]
            if np.isnan(self.network_s[row, j]) or math.isinf(costs[j]):
                lines.append(f"{name}: not eligible, out of reach or dead")
                continue
            if np.isnan(costs[j]):
                lines.append(f"{name}: {100 * share:.2f} %, by feedback")
                continue
            full = " (full)" if self.loads[j] >= self.capacities[j] * (1 - 1e-6) else ""
            lines.append(
                f"{name}: {100 * share:.2f} % at {1e3 * costs[j]:.1f} ms for one more request: "
                f"network {1e3 * self.network_s[row, j]:.1f}, engine and whoever waits there "
                f"{1e3 * self.prices_s[j]:.1f}{full}"
            )
        lines += [
            f"{name}: penalised to {100 * left:.1f} % of what it would get: {why or 'on its way back'}"
            for name, (left, why) in self.penalties.items()
        ]
        if self.shed[row] > 0:
            lines.append(f"shed: {self.shed[row]:.4g} requests per second")
        return lines


def _check(found: Snapshot) -> None:
    """Refuse what is well-formed and wrong, naming the entry; nothing of it is used then."""
    n, m = len(found.demands), len(found.engines)
    shapes = {"weights": (n, m), "network_s": (n, m), "rates": (n,), "shed": (n,)}
    for name in _ARRAYS:
        shape = shapes.get(name, (m,))
        if getattr(found, name).shape != shape:
            raise BadSnapshot(f"{name}: expected shape {shape}, got {getattr(found, name).shape}")
    for demand, row in zip(found.demands, found.weights, strict=True):
        for engine, share in zip(found.engines, row.tolist(), strict=True):
            if not 0 <= share <= 1 + _SEEN:
                raise BadSnapshot(f"weights: {demand} to {engine}: expected 0..1, got {share}")
        if row.any() and abs(row.sum() - 1) > _SEEN:
            raise BadSnapshot(f"weights: {demand}: expected shares that sum to 1, got {row.sum():g}")
    for name in ("rates", "shed", "capacities", "loads", "in_flight"):
        for who, value in zip(
            found.demands if name in shapes else found.engines, getattr(found, name), strict=True
        ):
            if not value >= 0:
                raise BadSnapshot(f"{name}: {who}: expected >= 0, got {value}")
    for engine, load, capacity in zip(found.engines, found.loads, found.capacities, strict=True):
        if not np.isnan(found.prices_s).all() and load > capacity * (1 + 1e-6) + 1e-9:
            raise BadSnapshot(f"loads: {engine}: expected at most its capacity, {capacity:g}, got {load:g}")
    try:
        found.memory.check(found.engines)
    except ValueError as error:
        raise BadSnapshot(str(error)) from None


_ARRAYS = ("weights", "network_s", "rates", "shed", "capacities", "loads", "prices_s", "in_flight")


def diff(old: Snapshot, new: Snapshot) -> list[str]:
    """Return what changed, in words: shares, capacities, what is shed, the expected latency."""
    lines = []
    before = {
        d: dict(zip(old.engines, row, strict=True)) for d, row in zip(old.demands, old.weights, strict=True)
    }
    for demand, row in zip(new.demands, new.weights, strict=True):
        was = before.pop(demand, None)
        if was is None:
            lines.append(f"{demand}: new")
            continue
        now = dict(zip(new.engines, row, strict=True))
        for name in dict.fromkeys([*was, *now]):
            a, b = was.get(name, 0.0), now.get(name, 0.0)
            if abs(a - b) > _SEEN:
                lines.append(f"{demand} to {name}: {100 * a:.2f} % -> {100 * b:.2f} %")
    lines += [f"{demand}: gone" for demand in before]
    capacity = dict(zip(old.engines, old.capacities, strict=True))
    for name, now in zip(new.engines, new.capacities, strict=True):
        if name not in capacity:
            lines.append(f"{name}: new, {now:.4g}/s")
        elif abs(capacity[name] - now) > 1e-9 * max(1.0, now):
            lines.append(f"{name}: capacity {capacity[name]:.4g} -> {now:.4g}/s")
    lines += [f"{name}: gone" for name in old.engines if name not in new.engines]
    for name in dict.fromkeys([*old.penalties, *new.penalties]):
        a, b = old.penalties.get(name, (1.0, ""))[0], new.penalties.get(name, (1.0, ""))[0]
        if abs(a - b) > _SEEN:
            lines.append(f"{name}: penalty {100 * a:.1f} % -> {100 * b:.1f} % of its weight")
    if abs(float(old.shed.sum() - new.shed.sum())) > 1e-9:
        lines.append(f"shed: {old.shed.sum():.4g} -> {new.shed.sum():.4g}/s")
    if lines or abs(old.mean_s - new.mean_s) > 1e-6:
        lines.append(f"expected latency: {1e3 * old.mean_s:.2f} -> {1e3 * new.mean_s:.2f} ms")
    return lines


def freshness(age_s: float, soft_s: float, hard_s: float) -> Freshness:
    """Return whether a snapshot may be used as it is, with a warning, or only until local rules take over."""
    if age_s <= soft_s:
        return "fresh"
    return "stale" if age_s <= hard_s else "expired"


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def _plain(array: NDArray[np.float64]) -> Any:
    """Lists, with null for what JSON has no number for."""
    if array.ndim > 1:
        return [_plain(row) for row in array]
    return [
        value if math.isfinite(value) else (None if math.isnan(value) else "inf") for value in array.tolist()
    ]


def _array(lists: Any) -> NDArray[np.float64]:
    if lists and isinstance(lists[0], list):
        return np.array([_array(row) for row in lists])
    return np.array([float("nan") if value is None else float(value) for value in lists], dtype=np.float64)
