"""Where a Serve file's replicas go: pools on nodes with a resource, ingresses and the proxy at the frontend.

For applications of this package (`parm_ray.serve.app:build`); others are left as they are. So is a pool
that asks for resources already: that is how a second model is bound to some of the nodes.
"""

from __future__ import annotations

import copy
from typing import Any

from parm_ray.config.loading import BUILDER, parse_settings
from parm_ray.core import ConfigError

INGRESS = "Ingress"
# Of `frontend: 1`, so that the ingresses of many applications fit.
_INGRESS_SHARE = 0.01


def place(
    document: dict[str, Any], *, models: str = "model_node", amount: float = 1.0, frontend: str = "frontend"
) -> dict[str, Any]:
    """Return the Serve document with its replicas bound to nodes, and Serve's proxy at the head only.

    models: the resource that model replicas ask for. amount: how much of it each takes: 1 of a node's 1 is
    one replica a node, 0.5 two. frontend: the resource that ingresses ask for. Raises ConfigError for
    illegal args of an application.
    """
    if amount <= 0:
        raise ConfigError(f"amount: expected more than 0, got {amount}")
    placed = copy.deepcopy(document)
    for i, app in enumerate(placed["applications"]):
        if app.get("import_path") == BUILDER:
            where = f"applications[{i}]"
            _place_pools(app, {models: amount})
            _place_ingress(app, {frontend: _INGRESS_SHARE}, where)
    placed["proxy_location"] = "HeadOnly"
    return placed


def _place_pools(app: dict[str, Any], resources: dict[str, float]) -> None:
    args = app["args"]
    # In a shared pool parity models run on the replicas of the deployed model.
    shared = args.get("plan", {}).get("pool") == "shared"
    backup = [args["backup"]] if args.get("backup") else []
    for pool in (args["model"], *(() if shared else args.get("parity", ())), *backup):
        if not pool.get("resources"):
            pool["resources"] = resources


def _place_ingress(app: dict[str, Any], resources: dict[str, float], where: str) -> None:
    # `args` has no resources for it. Serve's own override replaces all of an actor's options.
    num_cpus = parse_settings(app["args"], f"{where}.args").ingress.num_cpus
    overrides = app.setdefault("deployments", [])
    ingress = next((item for item in overrides if item.get("name") == INGRESS), None)
    if ingress is None:
        overrides.append(ingress := {"name": INGRESS})
    ingress.setdefault("ray_actor_options", {"num_cpus": num_cpus, "resources": resources})
