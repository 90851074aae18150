"""A Ray cluster that somebody else started: reached by its dashboard and its HTTP proxy, never ended."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Protocol

from load_tests import http_json
from load_tests.cluster import ClusterError

APPLICATION = "scenario"
"""The application that a scenario's plan is."""

SECOND_MODEL = "second_model"
"""The one beside it, of inference multitenancy."""

OURS = frozenset({APPLICATION, SECOND_MODEL})
"""All applications that scenarios deploy."""


class Reachable(Protocol):
    """What deploying and asking take of a cluster."""

    @property
    def dashboard_url(self) -> str:
        """Ray's dashboard, which takes Serve files."""

    @property
    def base_url(self) -> str:
        """Serve's HTTP proxy."""

    @property
    def env(self) -> dict[str, str]:
        """The environment of commands that talk to it."""


@dataclass(frozen=True)
class GivenCluster:
    """A cluster by its addresses, such as http://head:8265 and http://head:8000."""

    dashboard_url: str
    base_url: str
    env: dict[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)


def reach(dashboard_url: str, http_url: str) -> GivenCluster:
    """Return the cluster, once it answers and runs no application but ours.

    `serve deploy` replaces all applications of a cluster, so that a stranger's would be gone. Raises
    ClusterError.
    """
    found = GivenCluster(dashboard_url.rstrip("/"), http_url.rstrip("/"))
    try:
        details = http_json.get(f"{found.dashboard_url}/api/serve/applications/", timeout_s=10)
    except (OSError, ValueError) as error:
        raise ClusterError(f"--dashboard: no Ray dashboard at {dashboard_url} ({error})") from None
    others = sorted(set(details.get("applications", {})) - OURS)
    if others:
        raise ClusterError(
            f"{dashboard_url}: runs {', '.join(others)}, which deploying a scenario would remove; "
            "delete them first"
        )
    return found
