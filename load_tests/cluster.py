"""A Ray cluster of one's own, on this machine, for the length of a run.

`ray start --head --block` is kept as a child process, so every process of the cluster is its
descendant, and nothing else is ever signalled: other clusters on the machine are left alone
(`ray stop` would end them too). All ports are free ones, all files are under a directory of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from load_tests import http_json, processes

# Unix sockets live under the temp dir and their paths are limited to 107 bytes.
LONGEST_TEMP_DIR = 40


class ClusterError(RuntimeError):
    """The cluster did not start, or an application did not come up; the message says where to look."""


@dataclass(frozen=True)
class Cluster:
    """A running cluster. `pid` is that of `ray start`; `http_port` is reserved for Serve's
    proxy, `metrics_port` is where Prometheus text is served."""

    pid: int
    dashboard_url: str
    http_port: int
    metrics_port: int
    temp_dir: Path
    env: dict[str, str] = field(repr=False)

    @property
    def base_url(self) -> str:
        """Where Serve's HTTP proxy answers once an application is deployed."""
        return f"http://127.0.0.1:{self.http_port}"

    def owns(self, pid: int) -> bool:
        """Whether a process belongs to this cluster. Asked before every signal."""
        return processes.descends(pid, self.pid)


@contextmanager
def cluster(
    *, num_cpus: int, cwd: Path, object_store_mb: int = 100, start_s: float = 90
) -> Iterator[Cluster]:
    """Start a one-node cluster, and end it however the block is left.

    num_cpus: what Ray believes it has; also how many idle workers it starts ahead. cwd: where replicas
    run, that is, what relative artefact paths are relative to. Raises ClusterError after `start_s` seconds.
    """
    temp_dir = Path(tempfile.mkdtemp(prefix="parm-"))
    if len(str(temp_dir)) > LONGEST_TEMP_DIR:
        shutil.rmtree(temp_dir)
        temp_dir = Path(tempfile.mkdtemp(prefix="parm-", dir="/tmp"))
    gcs, dashboard, agent, agent_grpc, runtime_env, export, client, http = processes.free_ports(8)
    env = _environment()
    command = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"),
        *("--node-ip-address", "127.0.0.1", "--port", str(gcs), "--temp-dir", str(temp_dir)),
        *("--num-cpus", str(num_cpus), "--object-store-memory", str(object_store_mb * 2**20)),
        *("--include-dashboard", "true", "--dashboard-port", str(dashboard)),
        *("--dashboard-agent-listen-port", str(agent), "--dashboard-agent-grpc-port", str(agent_grpc)),
        *("--runtime-env-agent-port", str(runtime_env), "--metrics-export-port", str(export)),
        *("--ray-client-server-port", str(client), "--min-worker-port", "0", "--max-worker-port", "0"),
        *("--disable-usage-stats", "--include-log-monitor", "false"),
    ]
    log = (temp_dir / "ray_start.log").open("w")
    # A session of its own keeps the terminal's Ctrl-C away from it: it is ended below, in order.
    ray = subprocess.Popen(
        command, cwd=cwd, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
    )
    started = Cluster(ray.pid, f"http://127.0.0.1:{dashboard}", http, export, temp_dir, env)
    try:
        _wait(started, ray, start_s)
        yield started
    finally:
        _end(started, ray)
        log.close()
        shutil.rmtree(temp_dir, ignore_errors=True)


def _environment() -> dict[str, str]:
    """Ours, without any setting that would point Ray at somebody else's cluster."""
    elsewhere = ("RAY_ADDRESS", "RAY_DASHBOARD_ADDRESS", "RAY_RUNTIME_ENV_HOOK")
    return {k: v for k, v in os.environ.items() if k not in elsewhere} | {
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_SERVE_LOG_TO_STDERR": "0",
        "PYTHONUNBUFFERED": "1",
    }


def _wait(started: Cluster, ray: subprocess.Popen[bytes], start_s: float) -> None:
    give_up = time.monotonic() + start_s
    while time.monotonic() < give_up:
        if ray.poll() is not None:
            raise ClusterError(f"ray start ended with status {ray.returncode}:\n{_tail(started)}")
        try:
            http_json.get(f"{started.dashboard_url}/api/serve/applications/", timeout_s=5)
            return
        except (OSError, urllib.error.URLError):
            time.sleep(0.2)
    raise ClusterError(f"no dashboard at {started.dashboard_url} after {start_s:.0f} s:\n{_tail(started)}")


def _tail(started: Cluster) -> str:
    return (started.temp_dir / "ray_start.log").read_text(errors="replace")[-2000:]


def _end(started: Cluster, ray: subprocess.Popen[bytes]) -> None:
    # The tree is written down first: orphans of `ray start` would no longer be found below it.
    members = processes.tree(started.pid)
    root = [psutil.Process(ray.pid)] if ray.poll() is None else []
    processes.end(root, grace_s=6)
    processes.end([*members, *processes.mentioning(str(started.temp_dir))], grace_s=2)
    ray.wait(timeout=5)
