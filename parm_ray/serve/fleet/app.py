"""Builders of a fleet's applications, as Serve YAML files name them; see serve_configs/routing/README.md.

parm_ray.serve.fleet.app:control_plane    one for the fleet, `args` is the fleet
parm_ray.serve.fleet.app:front_end        one for each front end
parm_ray.serve.fleet.app:token_engine     an emulated engine; real ones: `parm_ray.serve.app:build`
"""

# No `from __future__ import annotations` here: Serve reads the builders' annotations as they stand.

from typing import Any, cast

from ray import serve
from ray.serve import Application
from ray.serve.config import RequestRouterConfig

from parm_ray.config.fleet_file import FleetSettings, FrontEndArguments
from parm_ray.config.token_engine import TokenEngineSettings
from parm_ray.serve.app import ROUTER
from parm_ray.serve.fleet.control_plane import FleetControl
from parm_ray.serve.fleet.front_end import FleetFrontEnd
from parm_ray.serve.fleet.token_engine import TokenEngine

CONTROL, FRONT_END, TOKEN_ENGINE = "FleetControl", "FleetFrontEnd", "TokenEngine"


def control_plane(settings: FleetSettings) -> Application:
    """Return the control plane of a fleet."""
    deployment = serve.deployment(
        name=CONTROL,
        num_replicas=1,
        max_ongoing_requests=1000,
        ray_actor_options={"num_cpus": settings.control.num_cpus},
        graceful_shutdown_wait_loop_s=0.2,
        graceful_shutdown_timeout_s=2,
    )(FleetControl)
    return deployment.bind(settings)


def front_end(arguments: FrontEndArguments) -> Application:
    """Return one front end of a fleet."""
    deployment = serve.deployment(
        name=FRONT_END,
        num_replicas=arguments.replicas,
        max_ongoing_requests=arguments.max_ongoing_requests,
        ray_actor_options={"num_cpus": arguments.num_cpus},
        graceful_shutdown_wait_loop_s=0.5,
    )(FleetFrontEnd)
    return deployment.bind(arguments.fleet, arguments.name, arguments.control, arguments.max_body_bytes)


def token_engine(settings: TokenEngineSettings) -> Application:
    """Return an emulated language-model engine."""
    deployment = serve.deployment(
        name=TOKEN_ENGINE,
        num_replicas=settings.replicas,
        max_ongoing_requests=10_000,
        request_router_config=RequestRouterConfig(request_router_class=cast(Any, ROUTER)),
        ray_actor_options={"num_cpus": settings.num_cpus},
        health_check_period_s=2,
        graceful_shutdown_wait_loop_s=0.2,
        graceful_shutdown_timeout_s=2,
    )(TokenEngine)
    return deployment.bind(settings)
