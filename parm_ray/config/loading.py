"""Reads Serve YAML files whose applications are built by this package, and checks their `args`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from parm_ray.config.settings import Settings
from parm_ray.core import ConfigError

BUILDER = "parm_ray.serve.app:build"

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


def load_settings(path: str | Path) -> dict[str, Settings]:
    """Return the settings of each of this package's applications in a Serve YAML file, by app name.

    Raises ConfigError with `file: key path: what is wrong`.
    """
    try:
        document = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML ({error})") from None
    return dict(_applications(path, document))


def _applications(path: str | Path, document: Any) -> Iterator[tuple[str, Settings]]:
    applications = document.get("applications") if isinstance(document, dict) else None
    if not isinstance(applications, list) or not applications:
        raise ConfigError(f"{path}: applications: expected a list of Serve applications")
    found = False
    for i, app in enumerate(applications):
        where = f"{path}: applications[{i}]"
        if not isinstance(app, dict):
            raise ConfigError(f"{where}: expected a mapping")
        if app.get("import_path") != BUILDER:
            continue
        found = True
        unknown = sorted(set(app) - APPLICATION_KEYS)
        if unknown:
            raise ConfigError(
                f"{where}.{unknown[0]}: unknown key; known are {', '.join(sorted(APPLICATION_KEYS))}"
            )
        yield str(app.get("name", "default")), parse_settings(app.get("args") or {}, f"{where}.args")
    if not found:
        raise ConfigError(f"{path}: no application has import_path {BUILDER}")


def parse_settings(args: Any, where: str = "args") -> Settings:
    """Validate `args`. Raises ConfigError whose lines are `where.key.path: what is wrong`."""
    try:
        return Settings.model_validate(args)
    except ValidationError as error:
        lines = [f"{'.'.join([where, *map(str, e['loc'])])}: {e['msg']}" for e in error.errors()]
        raise ConfigError("\n".join(lines)) from None
