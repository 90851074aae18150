"""Where a scenario can run: a cluster of its own on this machine, or a lab of several nodes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from load_tests import serve_app
from load_tests.cluster import Cluster, ClusterError
from load_tests.netlab import Lab, placement

STOP_S = 20.0
"""How long the shuffles' process may take to end."""


class OneCluster:
    """A cluster as `load_tests.cluster` starts one."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def deploy(self, document: dict[str, Any], target: Path) -> str:
        """Deploy the document; see `scenario_run.Place`."""
        return _deploy(self._cluster, document, target)

    def network_bytes(self) -> int | None:
        """Nobody counts them on one machine."""
        return None

    @contextmanager
    def disturbed(self, shuffles: dict[str, Any] | None, target: Path) -> Iterator[None]:
        """Shuffles need nodes to shuffle between. Raises ClusterError for a scenario that has any."""
        if shuffles is not None:
            raise ClusterError("shuffles: one machine has no network to disturb; run it with --on netlab")
        yield


class InLab:
    """A lab, from inside its frontend: replicas on the model nodes, ingress and proxy here."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def deploy(self, document: dict[str, Any], target: Path) -> str:
        """Deploy the document; see `scenario_run.Place`."""
        return _deploy(self._lab.cluster, placement.place(document), target)

    def network_bytes(self) -> int | None:
        """Bytes that the model nodes' links have carried, both ways."""
        return sum(
            traffic.sent + traffic.received for node, traffic in self._lab.traffic().items() if node > 0
        )

    @contextmanager
    def disturbed(self, shuffles: dict[str, Any] | None, target: Path) -> Iterator[None]:
        """Keep the shuffles going in a process of their own while the block runs.

        Raises ClusterError if they do not start, or have ended by themselves.
        """
        if shuffles is None:
            yield
            return
        target.write_text(yaml.safe_dump(shuffles))
        command = [sys.executable, "-m", "load_tests.shuffles", "--config", str(target)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            if not first.startswith("shuffling"):
                raise ClusterError(f"shuffles did not start: {first}{process.stderr.read()}")
            yield
            if process.poll() is not None:
                raise ClusterError(f"shuffles ended by themselves: {process.stderr.read()}")
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _deploy(cluster: Cluster, document: dict[str, Any], target: Path) -> str:
    target.parent.mkdir(parents=True, exist_ok=True)
    options = {"host": "127.0.0.1", "port": cluster.http_port}
    target.write_text(yaml.safe_dump({"http_options": options, **document}, sort_keys=False))
    serve_app.deploy(cluster, target)
    return cluster.base_url
