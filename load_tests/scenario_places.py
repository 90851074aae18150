"""Where a scenario can run: a cluster of its own on this machine, or a lab of several nodes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from load_tests import serve_app
from load_tests.background_process import running
from load_tests.cluster import Cluster, ClusterError
from load_tests.given_cluster import APPLICATION, GivenCluster
from load_tests.netlab import Lab, placement
from parm_ray.config.faults import FaultSettings


class OneCluster:
    """A cluster as `load_tests.cluster` starts one."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def deploy(self, document: dict[str, Any], target: Path) -> str:
        """Deploy the document; see `scenario_run.Place`."""
        return _deploy(self._cluster, document, target)

    def aim(self, faults: Sequence[FaultSettings]) -> dict[int, str]:
        """Processes by pid; see `scenario_run.Place`."""
        return _aim(self._cluster, faults)

    def owns(self, pid: int) -> bool:
        """Whether a process is the cluster's."""
        return self._cluster.owns(pid)

    def set_link(self, pid: int, up: bool) -> None:
        """There is none. Raises ClusterError."""
        raise ClusterError("faults: cut: one machine has no links; run it with --on netlab")

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
        self._node_of: dict[int, int] = {}

    def deploy(self, document: dict[str, Any], target: Path) -> str:
        """Deploy the document; see `scenario_run.Place`."""
        return _deploy(self._lab.cluster, placement.place(document), target)

    def aim(self, faults: Sequence[FaultSettings]) -> dict[int, str]:
        """Processes by pid; see `scenario_run.Place`."""
        return _aim(self._lab.cluster, faults)

    def owns(self, pid: int) -> bool:
        """Whether a process is the lab's."""
        return self._lab.owns(pid)

    def set_link(self, pid: int, up: bool) -> None:
        """Pull or plug in the cable of a process's node. Raises ClusterError for a process of no node."""
        # Known from when it was pulled: the process may have died since.
        node = self._node_of.get(pid, self._lab.node_of(pid))
        if node is None:
            raise ClusterError(f"faults: cut: process {pid} has ended, or is on no node")
        self._node_of[pid] = node
        self._lab.set_link(node, up=up)

    def network_bytes(self) -> int | None:
        """Bytes that the model nodes' links have carried, both ways."""
        return sum(
            traffic.sent + traffic.received for node, traffic in self._lab.traffic().items() if node > 0
        )

    @contextmanager
    def disturbed(self, shuffles: dict[str, Any] | None, target: Path) -> Iterator[None]:
        """Keep the shuffles going; see `scenario_run.Place`."""
        with _shuffling(shuffles, target, None):
            yield


class TheirCluster:
    """A running cluster of any size. Replicas go to the nodes with the resource model_node, if there are any.

    ray_address: of the cluster, for the shuffles. What is deployed last stays deployed.
    """

    def __init__(self, cluster: GivenCluster, ray_address: str, on_model_nodes: bool) -> None:
        self._cluster, self._address = cluster, ray_address
        self._on_model_nodes = on_model_nodes

    def deploy(self, document: dict[str, Any], target: Path) -> str:
        """Deploy the document; see `scenario_run.Place`."""
        placed = placement.place(document) if self._on_model_nodes else document
        target.parent.mkdir(parents=True, exist_ok=True)
        # Of no account where Serve runs already.
        options = {"port": urlsplit(self._cluster.base_url).port or 80}
        target.write_text(yaml.safe_dump({"http_options": options, **placed}, sort_keys=False))
        serve_app.deploy(self._cluster, target)
        return self._cluster.base_url

    def aim(self, faults: Sequence[FaultSettings]) -> dict[int, str]:
        """Raises ClusterError: its processes may be on other machines."""
        raise ClusterError("faults: only on a cluster or a lab of this machine, whose processes are at hand")

    def owns(self, pid: int) -> bool:
        """No process is ours."""
        return False

    def set_link(self, pid: int, up: bool) -> None:
        """Raises ClusterError, as `aim` does."""
        raise ClusterError("faults: cut: only in a lab")

    def network_bytes(self) -> int | None:
        """Nobody counts them."""
        return None

    @contextmanager
    def disturbed(self, shuffles: dict[str, Any] | None, target: Path) -> Iterator[None]:
        """Keep the shuffles going; see `scenario_run.Place`."""
        with _shuffling(shuffles, target, {**self._cluster.env, "RAY_ADDRESS": self._address}):
            yield


@contextmanager
def _shuffling(shuffles: dict[str, Any] | None, target: Path, env: dict[str, str] | None) -> Iterator[None]:
    """Keep shuffles going in a process of their own while the block runs.

    Raises ClusterError if they do not start, or have ended by themselves.
    """
    if shuffles is None:
        yield
        return
    target.write_text(yaml.safe_dump(shuffles))
    command = [sys.executable, "-m", "load_tests.shuffles", "--config", str(target)]
    with running("shuffles", command, "shuffling", env):
        yield


def _aim(cluster: Cluster, faults: Sequence[FaultSettings]) -> dict[int, str]:
    serve_app.wait(cluster, set(serve_app.applications(cluster)))
    details = {APPLICATION: serve_app.applications(cluster)[APPLICATION]}
    pids = {pool: serve_app.replica_pids(details, deployment(pool)) for pool in {f.pool for f in faults}}
    return {pids[f.pool][f.number]: f.replica for f in faults if f.number < len(pids[f.pool])}


def deployment(pool: str) -> str:
    """Return the name of the deployment that a pool is: parity0 is ParityModel, parity1 ParityModel2."""
    if pool.startswith("parity"):
        row = int(pool.removeprefix("parity"))
        return "ParityModel" if row == 0 else f"ParityModel{row + 1}"
    return {"deployed": "DeployedModel", "backup": "BackupModel"}[pool]


def _deploy(cluster: Cluster, document: dict[str, Any], target: Path) -> str:
    target.parent.mkdir(parents=True, exist_ok=True)
    options = {"host": "127.0.0.1", "port": cluster.http_port}
    target.write_text(yaml.safe_dump({"http_options": options, **document}, sort_keys=False))
    serve_app.deploy(cluster, target)
    return cluster.base_url
