"""`request_router_kwargs` of `parm_ray.serve.weighted_router:WeightedRouter`, in any Serve YAML file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from parm_ray.config.strict import Seconds, Strict
from parm_ray.routing.planes.replicas import ReplicaRule

PLAIN = ("replica", "node", "zone")
NAMED = ("metadata", "label", "resource")


class ReplicaRouterSettings(Strict):
    """How a deployment's calls are split over its replicas.

    by: what tells replicas apart: replica (its id), node (its id), zone, metadata:KEY (what the replica's
    `record_replica_metadata` says), label:KEY (of its node), resource:KEY (each node by itself; its weight is
    how much of that resource it has). weights: by that, >= 0, any scale, for all replicas of one together;
    default: of those not named. control: the application of a control plane, whose engines are what `by`
    tells apart, and demand: of its fleet, as front_end/name; null = the weights stay as they are. pull_ms:
    between reports, and looks for a new snapshot. expired_s: from that age of the one in use on the weights
    hold again.
    """

    by: str = "replica"
    weights: dict[str, Annotated[float, Field(ge=0, le=1e9)]] = Field(default_factory=dict)
    default: Annotated[float, Field(ge=0, le=1e9)] = 1.0
    control: str | None = Field(default=None, min_length=1)
    demand: str | None = Field(default=None, pattern=r"^[^/]+/[^/]+$")
    pull_ms: Annotated[float, Field(ge=10, le=3_600_000)] = 1000.0
    expired_s: Seconds = 180.0

    @model_validator(mode="after")
    def _fits(self) -> ReplicaRouterSettings:
        kind, _, key = self.by.partition(":")
        if self.by not in PLAIN and not (kind in NAMED and key):
            known = ", ".join((*PLAIN, *(f"{name}:KEY" for name in NAMED)))
            raise ValueError(f"by: expected one of {known}, got {self.by}")
        if (self.control is None) != (self.demand is None):
            raise ValueError("control, demand: expected both or neither")
        if kind == "resource" and (self.weights or self.control is not None):
            raise ValueError("by: resource: expected no weights and no control, the resource is the weight")
        if self.weights and not self.default and not any(self.weights.values()):
            raise ValueError("weights: expected one above 0, or a default")
        self.rule()
        return self

    def rule(self) -> ReplicaRule:
        """Return what the data plane takes."""
        return ReplicaRule(self.weights, self.default, self.demand or "", self.expired_s)
