"""Serve applications on a cluster: deploy a YAML file, wait for it, list its replicas."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from load_tests import http_json
from load_tests.cluster import ClusterError
from load_tests.given_cluster import Reachable


def render_config(source: Path, target: Path, *, http_port: int, root: Path) -> dict[str, Any]:
    """Write `source` to `target` with a free HTTP port and with artefact paths made absolute from `root`.

    Everything else stays as it is. Returns the new document.
    """
    document = yaml.safe_load(source.read_text())
    document["http_options"] = {
        **document.get("http_options", {}), "host": "127.0.0.1", "port": http_port
    }  # fmt: skip
    rendered: dict[str, Any] = _absolute(document, root)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(yaml.safe_dump(rendered, sort_keys=False))
    return rendered


def deploy(
    cluster: Reachable, config: Path, *, timeout_s: float = 180, ready_path: str = "/v2/health/ready"
) -> None:
    """`serve deploy` the file and wait until every application runs and the model is ready.

    Raises ClusterError when the command or an application fails, or after `timeout_s` seconds.
    """
    command = [sys.executable, "-m", "ray.serve.scripts", "deploy", str(config), "-a", cluster.dashboard_url]
    done = subprocess.run(
        command, env=cluster.env, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode:
        raise ClusterError(
            f"serve deploy {config} ended with status {done.returncode}:\n{done.stderr[-2000:]}"
        )
    wanted = {app["name"] for app in yaml.safe_load(config.read_text())["applications"]}
    wait(cluster, wanted, timeout_s=timeout_s, ready_path=ready_path)


def wait(
    cluster: Reachable, wanted: set[str], *, timeout_s: float = 180, ready_path: str = "/v2/health/ready"
) -> None:
    """Wait until these applications, and no other, run with all their replicas, and the model is ready.

    Raises ClusterError when one of them fails, or after `timeout_s` seconds.
    """
    give_up = time.monotonic() + timeout_s
    status: Mapping[str, Any] = {}
    while time.monotonic() < give_up:
        status = applications(cluster)
        failed = [f"{n}: {a['message'][-1500:]}" for n, a in status.items() if a["status"] == "DEPLOY_FAILED"]
        if failed:
            raise ClusterError("\n".join(failed))
        running = {name for name, app in status.items() if app["status"] == "RUNNING"}
        # What was deployed before must be gone too, or it would share the CPUs: other applications, and the
        # replicas that an application of the same name had.
        if (
            running == wanted == set(status)
            and settled(status)
            and http_json.ready(cluster.base_url + ready_path)
        ):
            return
        time.sleep(0.3)
    states = {name: (app["status"], app["message"]) for name, app in status.items()}
    raise ClusterError(f"{', '.join(sorted(wanted))}: not running after {timeout_s:.0f} s: {states}")


def applications(cluster: Reachable) -> dict[str, Any]:
    """Serve's details of every application, by name; empty before the first is deployed."""
    found: dict[str, Any] = http_json.get(
        f"{cluster.dashboard_url}/api/serve/applications/", timeout_s=10
    ).get("applications", {})
    return found


def settled(details: Mapping[str, Any]) -> bool:
    """Whether every replica of every application runs: none starts, none is being stopped."""
    return all(
        replica["state"] == "RUNNING"
        for app in details.values()
        for deployment in app["deployments"].values()
        for replica in deployment["replicas"]
    )


def replica_pids(details: Mapping[str, Any], deployment: str) -> list[int]:
    """Process ids of the running replicas of a deployment in any application, ascending.

    `details` is what `applications` returned.
    """
    return sorted(
        replica["pid"]
        for app in details.values()
        for replica in app["deployments"].get(deployment, {}).get("replicas", [])
        if replica["state"] == "RUNNING" and replica.get("pid")
    )


def _absolute(value: Any, root: Path) -> Any:
    if isinstance(value, dict):
        return {
            key: str((root / item).resolve())
            if key == "artifact" and isinstance(item, str)
            else _absolute(item, root)
            for key, item in value.items()
        }
    return [_absolute(item, root) for item in value] if isinstance(value, list) else value
