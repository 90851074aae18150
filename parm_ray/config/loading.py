"""Reads Serve YAML files whose applications are built by this package, and checks their `args`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from parm_ray.config.fleet_applications import check_fleet
from parm_ray.config.fleet_file import FleetSettings, FrontEndArguments
from parm_ray.config.replica_router import ReplicaRouterSettings
from parm_ray.config.settings import Settings
from parm_ray.config.token_engine import TokenEngineSettings
from parm_ray.core import ConfigError

BUILDER = "parm_ray.serve.app:build"

# A request router that any deployment may have; Serve reads its settings where it makes one.
WEIGHTED = "parm_ray.serve.weighted_router:WeightedRouter"

# A fleet's applications, and what each takes.
FLEET_BUILDERS: dict[str, type[BaseModel]] = {
    "parm_ray.serve.fleet.app:control_plane": FleetSettings,
    "parm_ray.serve.fleet.app:front_end": FrontEndArguments,
    "parm_ray.serve.fleet.app:token_engine": TokenEngineSettings,
}

# Serve's own schema ignores keys it does not know, so a typo there would pass in silence.
APPLICATION_KEYS = frozenset(
    {
        "args",
        "autoscaling_policy",
        "deployments",
        "external_scaler_enabled",
        "host",
        "import_path",
        "logging_config",
        "name",
        "port",
        "route_prefix",
        "runtime_env",
    }
)


M = TypeVar("M", bound=BaseModel)


def load_settings(path: str | Path) -> dict[str, Settings]:
    """Return the settings of each model's application in a Serve YAML file, by app name.

    A fleet's applications are checked, too. Raises ConfigError as `load_applications` does.
    """
    found = load_applications(path).items()
    return {name: settings for name, settings in found if isinstance(settings, Settings)}


def load_applications(path: str | Path) -> dict[str, BaseModel]:
    """Return the arguments of each of this package's applications in a Serve YAML file, by app name.

    Raises ConfigError with `file: key path: what is wrong`.
    """
    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 ({error.reason})") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML ({error})") from None
    routers = dict(_routers(path, document))
    applications = dict(_applications(path, document, bool(routers)))
    check_fleet(path, applications)
    for where, router in routers.items():
        fleet = applications.get(router.control or "")
        known = [str(demand) for demand in fleet.fleet().demands] if isinstance(fleet, FleetSettings) else []
        if known and router.demand not in known:
            demands = ", ".join(known)
            raise ConfigError(f"{where}.demand: expected one of {demands}, got {router.demand}")
    return applications


def _routers(path: str | Path, document: Any) -> Iterator[tuple[str, ReplicaRouterSettings]]:
    """Yield the settings of weighted request routers, of whatever deployment, by where they are."""
    applications = document.get("applications") if isinstance(document, dict) else None
    for i, app in enumerate(applications if isinstance(applications, list) else ()):
        deployments = app.get("deployments") if isinstance(app, dict) else None
        for j, deployment in enumerate(deployments if isinstance(deployments, list) else ()):
            config = deployment.get("request_router_config") if isinstance(deployment, dict) else None
            if isinstance(config, dict) and config.get("request_router_class") == WEIGHTED:
                section = f"deployments[{j}].request_router_config.request_router_kwargs"
                where = f"{path}: applications[{i}].{section}"
                kwargs = config.get("request_router_kwargs") or {}
                yield where, _parsed(ReplicaRouterSettings, kwargs, where)


def _applications(path: str | Path, document: Any, found: bool) -> Iterator[tuple[str, BaseModel]]:
    applications = document.get("applications") if isinstance(document, dict) else None
    if not isinstance(applications, list) or not applications:
        raise ConfigError(f"{path}: applications: expected a list of Serve applications")
    for i, app in enumerate(applications):
        where = f"{path}: applications[{i}]"
        if not isinstance(app, dict):
            raise ConfigError(f"{where}: expected a mapping")
        builder = app.get("import_path")
        if builder != BUILDER and builder not in FLEET_BUILDERS:
            continue
        found = True
        unknown = sorted(set(app) - APPLICATION_KEYS)
        if unknown:
            raise ConfigError(
                f"{where}.{unknown[0]}: unknown key; known are {', '.join(sorted(APPLICATION_KEYS))}"
            )
        args = app.get("args") or {}
        model = Settings if builder == BUILDER else FLEET_BUILDERS[builder]
        yield str(app.get("name", "default")), _parsed(model, args, f"{where}.args")
    if not found:
        known = ", ".join([BUILDER, *FLEET_BUILDERS])
        raise ConfigError(f"{path}: no application has an import_path of {known}, or a {WEIGHTED}")


def parse_settings(args: Any, where: str = "args") -> Settings:
    """Validate `args`. Raises ConfigError whose lines are `where.key.path: what is wrong`."""
    return _parsed(Settings, args, where)


def _parsed(model: type[M], args: Any, where: str) -> M:
    try:
        return model.model_validate(args)
    except ValidationError as error:
        lines = [f"{'.'.join([where, *map(str, e['loc'])])}: {e['msg']}" for e in error.errors()]
        raise ConfigError("\n".join(lines)) from None
