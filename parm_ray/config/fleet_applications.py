"""Whether the applications of one Serve YAML file that make up a fleet fit together."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from parm_ray.config.fleet_file import FleetSettings, FrontEndArguments
from parm_ray.config.settings import Settings
from parm_ray.core import ConfigError


def check_fleet(path: object, applications: Mapping[str, BaseModel]) -> None:
    """Raise ConfigError for an engine that is none, and for a front end that has another fleet.

    applications: arguments by the application's name. What is not in the file may run elsewhere.
    """
    for name, arguments in applications.items():
        fleet = arguments.fleet if isinstance(arguments, FrontEndArguments) else arguments
        if not isinstance(fleet, FleetSettings):
            continue
        for engine, told in fleet.engines.items():
            app = applications.get(told.app or engine)
            if isinstance(app, Settings) and not app.ingress.engine:
                raise ConfigError(
                    f"{path}: {told.app or engine}: args.ingress.engine: expected true, as {engine} is an "
                    f"engine of the fleet of {name}, got false"
                )
            if isinstance(app, FleetSettings | FrontEndArguments):
                raise ConfigError(
                    f"{path}: {name}: engines.{engine}.app: expected an engine's application, "
                    f"got {told.app or engine}"
                )
        if isinstance(arguments, FrontEndArguments) and arguments.control in applications:
            control = applications[arguments.control]
            if not isinstance(control, FleetSettings):
                raise ConfigError(
                    f"{path}: {name}: args.control: expected a control plane's application, "
                    f"got {arguments.control}"
                )
            if control != fleet:
                raise ConfigError(
                    f"{path}: {name}: args.fleet: expected that of {arguments.control}, got another"
                )
