"""Names and addresses of a lab's parts. All follow from the lab's name, so whoever knows it can clean up.

                 namespace <lab>-bridge: br0
             port0 |        port1 |         port2 |
              eth0 |         eth0 |          eth0 |
    namespace <lab>-0    namespace <lab>-1    namespace <lab>-2      (node 0 is the frontend)

Interfaces exist inside the lab's namespaces only, from their creation on: they go with them, their
names collide with nobody's, and every lab can use the same addresses.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

PREFIX = "parmlab-"
BRIDGE = "br0"
NODE_INTERFACE = "eth0"
PREFIX_LENGTH = 24

_NAME = re.compile(rf"{PREFIX}[0-9a-f]{{6}}")


def new_name() -> str:
    """A lab name that is most likely nobody's yet."""
    return PREFIX + secrets.token_hex(3)


def is_name(text: str) -> bool:
    """Whether this could be a lab's name. Asked before anything is removed by name."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True)
class Layout:
    """The parts of the lab `name` with node 0 (the frontend) and `model_nodes` more."""

    name: str
    model_nodes: int

    @property
    def numbers(self) -> range:
        """All node numbers, the frontend's 0 first."""
        return range(self.model_nodes + 1)

    @property
    def bridge_namespace(self) -> str:
        """The namespace that holds the bridge, and nothing else."""
        return f"{self.name}-bridge"

    def namespace(self, node: int) -> str:
        """A node's network namespace."""
        return f"{self.name}-{node}"

    @property
    def namespaces(self) -> list[str]:
        """All of the lab's namespaces, the bridge's last."""
        return [*map(self.namespace, self.numbers), self.bridge_namespace]

    def port(self, node: int) -> str:
        """The bridge's end of a node's veth pair."""
        return f"port{node}"

    def address(self, node: int) -> str:
        """A node's IPv4 address."""
        return f"10.199.0.{node + 1}"

    @property
    def subnet(self) -> str:
        """All of the nodes' addresses."""
        return f"10.199.0.0/{PREFIX_LENGTH}"
