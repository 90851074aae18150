"""Typed settings of a lab, loadable from YAML. Unknown keys are refused with their path.

    model_nodes: 6
    link: {rate_mbit: 200, burst_kb: 64, latency_ms: 200}
    nodes:
      3: {rate_mbit: 50}
      5: {resources: {second_model: 1}}

Node 0 is the frontend (Ray's head, Serve's proxy and ingress, the load generator); 1 to
`model_nodes` carry replicas.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from parm_ray.config.yaml_file import read_model

FRONTEND = 0
# 10.x.y.1 to .254, the frontend included; memory ends far earlier, at about 330 MB a node.
MOST_MODEL_NODES = 64

Resources = dict[str, Annotated[float, Field(gt=0)]]
RateMbit = Annotated[float, Field(ge=0.01, le=100_000)]
# Below one full Ethernet frame a token bucket passes nothing.
BurstKb = Annotated[float, Field(ge=2, le=65_536)]
LatencyMs = Annotated[float, Field(gt=0, le=60_000)]
RtoMinMs = Annotated[float, Field(ge=1, le=60_000)]
TcpBufferMb = Annotated[float, Field(ge=0.05, le=2000)]
CongestionControl = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,15}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LinkSettings(_Strict):
    """A node's link, the same in both directions: a token bucket (`tc tbf`) at either end.

    rate_mbit: 10^6 bits a second. burst_kb: what may go at once (1024 bytes). latency_ms: how long a
    packet may wait for tokens before it is dropped, which bounds the queue. rto_min_ms: how soon at the
    earliest TCP sends a lost packet again that nothing tells it of (Linux: 200 ms). congestion_control: how
    TCP finds its rate, whatever this machine's default is: cubic, Linux's own, fills the queue; bbr keeps
    it nearly empty. tcp_buffer_mb: how much one connection may have on its way at most (10^6 bytes), which
    bounds how much of a deep queue it can fill; None = as this machine has it.
    """

    rate_mbit: RateMbit = 200.0
    burst_kb: BurstKb = 64.0
    latency_ms: LatencyMs = 200.0
    rto_min_ms: RtoMinMs = 200.0
    congestion_control: CongestionControl = "cubic"
    tcp_buffer_mb: TcpBufferMb | None = None


class RayNodeSettings(_Strict):
    """What Ray believes a node has. It starts as many idle workers ahead as there are CPUs."""

    num_cpus: Annotated[int, Field(ge=0, le=256)] = 1
    resources: Resources = Field(default_factory=dict)


class NodeOverride(_Strict):
    """What is different at one node. `resources` come on top of the others' resources."""

    rate_mbit: RateMbit | None = None
    burst_kb: BurstKb | None = None
    latency_ms: LatencyMs | None = None
    rto_min_ms: RtoMinMs | None = None
    congestion_control: CongestionControl | None = None
    tcp_buffer_mb: TcpBufferMb | None = None
    num_cpus: Annotated[int, Field(ge=0, le=256)] | None = None
    resources: Resources = Field(default_factory=dict)


class LabSettings(_Strict):
    """A lab: one frontend node and `model_nodes` model nodes.

    nodes: overrides by node number, 0 for the frontend. environment: added to what every Ray process
    and every command in the lab sees. start_s: patience for one node's start, in seconds.
    """

    model_nodes: Annotated[int, Field(ge=1, le=MOST_MODEL_NODES)] = 6
    link: LinkSettings = LinkSettings()
    frontend: RayNodeSettings = RayNodeSettings(num_cpus=2, resources={"frontend": 1})
    model: RayNodeSettings = RayNodeSettings(num_cpus=1, resources={"model_node": 1})
    nodes: dict[int, NodeOverride] = Field(default_factory=dict)
    object_store_mb: Annotated[int, Field(ge=80, le=100_000)] = 150
    environment: dict[str, str] = Field(default_factory=dict)
    start_s: Annotated[float, Field(gt=0, le=3600)] = 120.0

    @model_validator(mode="after")
    def _overrides_name_nodes(self) -> LabSettings:
        if unknown := sorted(set(self.nodes) - set(self.numbers)):
            raise ValueError(f"nodes: expected node numbers 0 to {self.model_nodes}, got {unknown}")
        return self

    @property
    def numbers(self) -> range:
        """All node numbers, the frontend's 0 first."""
        return range(self.model_nodes + 1)

    def link_of(self, node: int) -> LinkSettings:
        """The link of one node, its overrides applied."""
        changes = self._override(node).model_dump(exclude_none=True, exclude={"num_cpus", "resources"})
        return self.link.model_copy(update=changes)

    def ray_of(self, node: int) -> RayNodeSettings:
        """What Ray is told about one node, its overrides applied."""
        base, override = self.frontend if node == FRONTEND else self.model, self._override(node)
        num_cpus = base.num_cpus if override.num_cpus is None else override.num_cpus
        return RayNodeSettings(num_cpus=num_cpus, resources={**base.resources, **override.resources})

    def _override(self, node: int) -> NodeOverride:
        return self.nodes.get(node, NodeOverride())


def load_settings(path: Path) -> LabSettings:
    """Read a YAML file; an empty one means the defaults. Raises ConfigError as `read_model` does."""
    return read_model(path, LabSettings)
