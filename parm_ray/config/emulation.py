"""An emulated accelerator's settings: how long calls take, which are slow, who shares it, what is lost."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from parm_ray.config.slowness import SlownessSettings
from parm_ray.config.strict import Millis, Strict
from parm_ray.workload import ServiceTime, SlownessScript, from_mapping


class EmulateSettings(Strict):
    """Emulated accelerator: each call takes at least this long, and some calls are slow.

    After the real forward pass the replica's worker thread sleeps until `service_ms` x factor have
    passed since the call began, the factor being what `slowness` says of it. Which calls are slow is a
    script: it depends on `seed`, the pool, the replica's rank and the call's number there (and for
    episodes the time since the replica's start), so that a simulation can be given the same one.
    service: a distribution in place of service_ms, {kind, ...} with seconds, as `workload.from_mapping`
    takes it.

    accelerator: a name; replicas on one node that give the same one have one accelerator between them,
    and calls that run together are as many times slower. None = each has its own.

    lose (deployed pool only): of every coding group, the own answer of one slot is lost, the slots
    taking turns: the model computes it, and the ingress keeps it back until the slot has been
    answered without it or its deadline has passed. For measuring reconstructions, not for production.
    """

    service_ms: Millis = 0.0
    service: dict[str, Any] | None = None
    slowness: SlownessSettings = SlownessSettings()
    accelerator: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")] | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    lose: Literal["none", "one_per_group"] = "none"

    @model_validator(mode="after")
    def _one_service_time(self) -> EmulateSettings:
        if not self.service_ms and self.service is None:
            for name, idle in (("slowness", SlownessSettings()), ("accelerator", None)):
                if getattr(self, name) != idle:
                    raise ValueError(f"{name}: does nothing without service_ms or service")
        if self.service is not None:
            if self.service_ms:
                raise ValueError("service: not together with service_ms")
            from_mapping(self.service, np.random.default_rng(0))
        return self

    def script(self) -> SlownessScript | None:
        """Return which calls are slow; None = none ever."""
        return self.slowness.script(self.seed)

    def service_time(self, rng: np.random.Generator) -> ServiceTime | None:
        """Return how long calls take, slow ones left out; None = as long as the model does."""
        if self.service is not None:
            return from_mapping(self.service, rng)
        if not self.service_ms:
            return None
        return from_mapping({"kind": "deterministic", "service_s": self.service_ms / 1e3}, rng)
