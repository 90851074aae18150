"""A running lab, for its owner and for commands inside it alike: everything follows from the state file."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from load_tests.cluster import Cluster
from load_tests.netlab import kernel, members, network, ray_nodes, state
from load_tests.netlab.kernel import NetlabError
from load_tests.netlab.layout import Layout
from load_tests.netlab.network import Traffic
from load_tests.netlab.ray_nodes import STATE_VARIABLE
from load_tests.netlab.settings import FRONTEND, LabSettings, LinkSettings
from load_tests.netlab.state import LabState

Stream = int | IO[bytes] | IO[str] | None


@dataclass(frozen=True)
class LabCluster(Cluster):
    """The lab as `load_tests.serve_app` and the like know a cluster.

    Its addresses answer inside the frontend's namespace only. `pid` is that of the frontend's raylet.
    """

    layout: Layout

    def owns(self, pid: int) -> bool:
        """Whether a process belongs to any node of the lab."""
        return members.owns(self.layout, pid)


class Lab:
    """Node 0 is the frontend, 1 to `model_nodes` are model nodes. Methods raise NetlabError."""

    def __init__(self, of: LabState) -> None:
        self.state = of
        self.layout = of.layout

    @property
    def name(self) -> str:
        """The lab's name, as in `python -m load_tests.netlab status`."""
        return self.state.name

    @property
    def settings(self) -> LabSettings:
        """What the lab was started with. Later changes of links are not in it."""
        return self.state.settings

    @property
    def dashboard_url(self) -> str:
        """Ray's dashboard with Serve's REST interface; answers inside the frontend's namespace only."""
        return ray_nodes.DASHBOARD_URL

    @property
    def base_url(self) -> str:
        """Where Serve's HTTP proxy answers, inside the frontend's namespace, once something is deployed."""
        return f"http://127.0.0.1:{ray_nodes.HTTP_PORT}"

    @property
    def env(self) -> dict[str, str]:
        """The environment of commands in the lab: this process's, and where Ray is."""
        file = state.path_of(self.name)
        return ray_nodes.environment(self.layout, self.settings, file, os.environ)

    @property
    def cluster(self) -> LabCluster:
        """For functions that take a `load_tests.cluster.Cluster`. Those that send HTTP have to run inside:
        see `run`, and `current` for getting at the lab from there."""
        return LabCluster(
            pid=self._raylet(FRONTEND),
            dashboard_url=self.dashboard_url,
            http_port=ray_nodes.HTTP_PORT,
            metrics_port=ray_nodes.METRICS_PORT,
            temp_dir=self.state.temp_dir,
            env=self.env,
            layout=self.layout,
        )

    def run(
        self,
        command: Sequence[str],
        *,
        node: int = FRONTEND,
        capture: bool = False,
        check: bool = True,
        timeout_s: float | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a node's namespace, the frontend's by default, and wait for it.

        `env` is added to the lab's. Raises subprocess.CalledProcessError (with `check`) and
        subprocess.TimeoutExpired like subprocess.run.
        """
        return subprocess.run(
            kernel.inside(self.layout.namespace(self._checked(node)), command),
            env={**self.env, **(env or {})},
            cwd=cwd,
            capture_output=capture,
            text=True,
            timeout=timeout_s,
            check=check,
        )

    def popen(
        self,
        command: Sequence[str],
        *,
        node: int = FRONTEND,
        stdin: Stream = None,
        stdout: Stream = None,
        stderr: Stream = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a command in a node's namespace, the frontend's by default.

        It is inside when this returns. Whatever of it still runs at the end of the lab ends then.
        """
        process = subprocess.Popen(
            kernel.inside(self.layout.namespace(self._checked(node)), command),
            env={**self.env, **(env or {})},
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
        )
        # Until then it would not be found as the lab's. A matter of milliseconds.
        wanted = members.identities([self.layout.namespace(node)])
        while process.poll() is None and not members.is_in(process.pid, wanted):
            time.sleep(0.002)
        return process

    def owns(self, pid: int) -> bool:
        """Whether a process belongs to any node of the lab."""
        return members.owns(self.layout, pid)

    def node_of(self, pid: int) -> int | None:
        """The number of the node that a process runs on; None for a process that is not the lab's."""
        for node in self.layout.numbers:
            if members.is_in(pid, members.identities([self.layout.namespace(node)])):
                return node
        return None

    def traffic(self) -> dict[int, Traffic]:
        """Bytes over each node's link since the start, by node number."""
        return network.traffic(self.layout)

    def set_link(self, node: int, *, up: bool) -> None:
        """Pull a node's cable, or plug it in again. Nobody is told: packets just get lost."""
        network.set_link(self.layout, self._checked(node), up=up)

    def set_rate(self, node: int, rate_mbit: float) -> None:
        """Change the rate of a node's link, both ways, in 10^6 bits a second; connections stay.

        Raises pydantic.ValidationError for a rate outside the legal range.
        """
        link = self.settings.link_of(self._checked(node)).model_dump() | {"rate_mbit": rate_mbit}
        network.shape(self.layout, node, LinkSettings.model_validate(link))

    def lose(self, node: int) -> None:
        """End all processes of a model node at once (SIGKILL). Its link stays up, so connections are reset;
        for a node that vanishes without a word pull its cable first."""
        if self._checked(node) == FRONTEND:
            raise NetlabError(f"node: expected a model node, 1 to {self.settings.model_nodes}, got 0")
        members.end([self.layout.namespace(node)], grace_s=0)

    def _checked(self, node: int) -> int:
        if node not in self.layout.numbers:
            raise NetlabError(f"node: expected 0 to {self.settings.model_nodes}, got {node}")
        return node

    def _raylet(self, node: int) -> int:
        wanted = members.identities([self.layout.namespace(node)])
        for process in members.members(wanted):
            if process.name() == "raylet":
                return process.pid
        raise NetlabError(f"node {node} has no raylet (any more)")


def current() -> Lab:
    """The lab that this process was started in, by `Lab.run` or `python -m load_tests.netlab run`.

    Raises NetlabError outside of a lab.
    """
    file = os.environ.get(STATE_VARIABLE)
    if file is None:
        raise NetlabError(
            f"{STATE_VARIABLE} is not set: this process does not run in a lab; start it with"
            " `python -m load_tests.netlab run -- COMMAND`"
        )
    return Lab(state.read(Path(file)))
