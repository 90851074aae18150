"""An advised plan as settings: the adviser's output is the server's input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from parm_ray.advisor.candidates import Candidate
from parm_ray.config.loading import BUILDER, load_settings, parse_settings
from parm_ray.config.settings import HedgeSettings, PlanSettings, PoolSettings, Settings
from parm_ray.core import ConfigError


def plan_settings(candidate: Candidate) -> PlanSettings:
    """Return the plan with the units and names of the configuration."""
    plan, offer = candidate.plan, candidate.offer
    given: dict[str, Any] = {"kind": plan.kind, "copy_share": plan.copy_share}
    if plan.kind == "replicated":
        given |= {"copies": plan.copies, "keep": plan.keep}
    if offer is not None:
        given |= {
            "encoder": offer.encoder,
            "decoder": offer.decoder,
            "k": plan.k,
            "r": plan.r,
            "fill_timeout_ms": _ms(plan.fill_timeout_s),
            "eager_share": plan.eager_share,
            "hold_off_ms": _ms(plan.hold_off_s),
            "pool": "shared" if candidate.shared else "dedicated",
        }
    if plan.hedge is not None:
        hedge = plan.hedge
        given["hedge"] = HedgeSettings(
            rule=hedge.rule,
            delay_ms=None if hedge.delay_s is None else _ms(hedge.delay_s),
            quantile=hedge.quantile,
            max_hedges=hedge.max_hedges,
            budget_ratio=round(hedge.budget_ratio, 6),
            budget_floor_per_s=round(hedge.budget_floor_per_s, 6),
        )
    return PlanSettings(**given)


def advised_config(base: Path, candidate: Candidate, parity_artifact: str | None = None) -> str:
    """Return a Serve YAML file: `base` with the candidate's plan and replicas, everything else as it was.

    parity_artifact: of the parity models, if the plan is coded and `base` has none for its k. Raises
    ConfigError if the file is wrong, has not exactly one application of this package, or lacks parity models.
    """
    settings = served_by(base)
    document = yaml.safe_load(base.read_text(encoding="utf-8"))
    app = next(app for app in document["applications"] if app.get("import_path") == BUILDER)
    args: dict[str, Any] = {k: v for k, v in app["args"].items() if k not in ("plan", "parity", "backup")}
    args["plan"] = plan_settings(candidate).model_dump(exclude_defaults=True)
    args["plan"].setdefault("kind", "none")
    args["model"] = {
        **args["model"],
        "replicas": _replicas(base, candidate.deployed, settings.model.slots_per_replica),
    }
    if candidate.offer is not None:
        old, k = settings.plan, candidate.plan.k
        offer = candidate.offer
        wanted = (k, candidate.plan.r, offer.encoder, offer.decoder)
        there = old.kind == "coded" and (old.k, old.r, old.encoder, old.decoder) == wanted
        if parity_artifact is None and not there:
            raise ConfigError(
                f"{base}: parity: expected parity models for {offer.encoder}/{offer.decoder}, k = {k}, or "
                "their artifact named"
            )
        pool = dict(app["args"]["parity"][0]) if there else {}
        if parity_artifact is not None:
            pool["artifact"] = parity_artifact
        if candidate.shared:
            pool = {key: value for key, value in pool.items() if key in ("artifact", "emulate")}
        else:
            same = {key: args["model"][key] for key in ("num_cpus", "num_gpus") if key in args["model"]}
            pool = {**same, **pool}
            slots = PoolSettings(**pool).slots_per_replica
            pool["replicas"] = _replicas(base, candidate.parity, slots)
        args["parity"] = [pool]
    parse_settings(args, f"{base}: advised args")
    app["args"] = args
    return yaml.safe_dump(document, sort_keys=False, width=100)


def served_by(base: Path) -> Settings:
    """Return the settings of the file's one application of this package. Raises ConfigError."""
    found = load_settings(base)
    if len(found) != 1:
        raise ConfigError(f"{base}: applications: expected one with {BUILDER}, got {len(found)}")
    return next(iter(found.values()))


def _replicas(base: Path, servers: int, slots: int) -> int:
    """How many replicas have so many slots: an advised plan counts what serves one call at a time."""
    if servers % slots:
        raise ConfigError(
            f"{base}: slots_per_replica: {slots} do not divide the {servers} servers that are advised; "
            "set it to 1, or ask about another number of replicas"
        )
    return servers // slots


def advised_fragment(candidate: Candidate) -> str:
    """Return the part of `args` that the plan decides, as YAML."""
    plan = plan_settings(candidate).model_dump(exclude_defaults=True)
    part: dict[str, Any] = {"plan": {"kind": "none", **plan}, "model": {"replicas": candidate.deployed}}
    if candidate.parity:
        part["parity"] = [{"replicas": candidate.parity}]
    return yaml.safe_dump(part, sort_keys=False, width=100)


def _ms(seconds: float) -> float:
    # To the microsecond: more digits would be noise in a file that people read.
    return round(1e3 * seconds, 3)
