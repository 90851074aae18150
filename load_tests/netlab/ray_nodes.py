"""Ray in the lab's namespaces: one `ray start` per node, the frontend's as the head.

Every namespace has all ports to itself, so all of them are fixed ones.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from load_tests.netlab import kernel
from load_tests.netlab.kernel import NetlabError
from load_tests.netlab.layout import Layout
from load_tests.netlab.settings import FRONTEND, LabSettings

GCS_PORT = 6379
DASHBOARD_PORT = 8265
HTTP_PORT = 8000
METRICS_PORT = 8090
DASHBOARD_URL = f"http://127.0.0.1:{DASHBOARD_PORT}"

# The variable that tells a command inside a lab where the lab's state is.
STATE_VARIABLE = "PARM_NETLAB"

# Settings of the caller's that would point Ray at another cluster.
_ELSEWHERE = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_DASHBOARD_ADDRESS", "RAY_RUNTIME_ENV_HOOK")
# What Ray does beside its work, at every node, all of them on this machine's cores. Metrics and events are
# reported seldom or not at all, nobody watches memory.
_BOOKKEEPING = {
    "RAY_task_events_report_interval_ms": "0",
    "RAY_event_stats": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_raylet_check_gc_period_milliseconds": "1000",
    "RAY_metrics_report_interval_ms": "60000",
    "REPORTER_UPDATE_INTERVAL_MS": "60000",
    "METRICS_RECORD_INTERVAL_S": "60",
    "RAY_SERVE_METRICS_EXPORT_INTERVAL_MS": "5000",
}
# `load_tests` is found from here, whatever the replicas' working directory is.
_ROOT = Path(__file__).parents[2]


def environment(
    layout: Layout, settings: LabSettings, state_file: Path, base: Mapping[str, str]
) -> dict[str, str]:
    """What every process of the lab sees: `base`, Ray's settings, and where the lab's state is."""
    return {
        **_BOOKKEEPING,
        **{key: value for key, value in base.items() if key not in _ELSEWHERE},
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_SERVE_LOG_TO_STDERR": "0",
        # Nodes start beside a training run, too.
        "RAY_raylet_start_wait_time_s": f"{settings.start_s:.0f}",
        "PYTHONUNBUFFERED": "1",
        **settings.environment,
        "RAY_ADDRESS": f"{layout.address(FRONTEND)}:{GCS_PORT}",
        "RAY_DASHBOARD_ADDRESS": DASHBOARD_URL,
        STATE_VARIABLE: str(state_file),
    }


@dataclass(frozen=True)
class RayNodes:
    """Starts the nodes of one lab. cwd: where replicas run, what relative artefact paths are relative to."""

    layout: Layout
    settings: LabSettings
    temp_dir: Path
    cwd: Path
    env: dict[str, str] = field(repr=False)

    def start(self, say: Callable[[str], None]) -> None:
        """Start all nodes, one after the other (all at once they time out on few cores), and wait for them.

        Raises NetlabError with the end of what the failed step printed.
        """
        for node in self.layout.numbers:
            say(f"starting Ray on node {node} of {self.settings.model_nodes}")
            # An address in the environment makes `ray start --head` refuse: it would be a second head.
            env = {k: v for k, v in self.env.items() if node != FRONTEND or k != "RAY_ADDRESS"}
            self._run(node, self.command(node), env, self.cwd)
        nodes, patience = str(self.settings.model_nodes + 1), str(self.settings.start_s)
        ready = [sys.executable, "-m", "load_tests.netlab.ready", DASHBOARD_URL, nodes, patience]
        self._run(FRONTEND, ready, self.env, _ROOT)

    def command(self, node: int) -> list[str]:
        """The `ray start` of one node, to be run inside its namespace."""
        ray = self.settings.ray_of(node)
        head = (
            *("--head", "--port", str(GCS_PORT), "--no-monitor", "--include-dashboard", "true"),
            *("--dashboard-host", "127.0.0.1", "--dashboard-port", str(DASHBOARD_PORT)),
        )
        member = ("--address", f"{self.layout.address(FRONTEND)}:{GCS_PORT}")
        return [
            *(sys.executable, "-m", "ray.scripts.scripts", "start"),
            *(head if node == FRONTEND else member),
            *("--node-ip-address", self.layout.address(node), "--temp-dir", str(self.temp_dir / str(node))),
            *("--num-cpus", str(ray.num_cpus), "--num-gpus", "0", "--resources", json.dumps(ray.resources)),
            *("--object-store-memory", str(self.settings.object_store_mb * 2**20)),
            *("--metrics-export-port", str(METRICS_PORT)),
            *("--disable-usage-stats", "--include-log-monitor", "false"),
        ]

    def _run(self, node: int, command: list[str], env: Mapping[str, str], cwd: Path) -> None:
        log, patience = self.temp_dir / f"start_{node}.log", self.settings.start_s + 30
        # A file, not a pipe: the daemons that `ray start` leaves behind would hold a pipe open.
        with log.open("ab") as output:
            try:
                status = subprocess.run(
                    kernel.inside(self.layout.namespace(node), command),
                    env=dict(env),
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    timeout=patience,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                status = None
        if status != 0:
            ended = f"ended with status {status}" if status is not None else f"took over {patience:.0f} s"
            words = log.read_text(errors="replace")[-2000:]
            raise NetlabError(f"node {node}: `{' '.join(command[1:4])}` {ended}:\n{words}")
