"""What a control plane has learned, which goes with its plans: the next one goes on from it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from parm_ray.routing.fleet.problem import Fleet


@dataclass(frozen=True)
class Memory:
    """What `penalties` of a snapshot, which are as they were applied, do not tell.

    fleet: fingerprint of the fleet as it was declared, "" = nothing is remembered. multipliers: of engines
    that are penalised, above 0, below 1, be it that the penalty is lifted. reasons: of those, by engine.
    failing: those penalised for failed calls. shares: of the feedback controller, 0..1, none where plans are
    solved for.
    """

    fleet: str = ""
    multipliers: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    failing: frozenset[str] = frozenset()
    shares: Mapping[str, float] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return {
            "fleet": self.fleet,
            "multipliers": dict(self.multipliers),
            "reasons": dict(self.reasons),
            "failing": sorted(self.failing),
            "shares": dict(self.shares),
        }

    @classmethod
    def of_plain(cls, content: Any) -> Memory:
        """Return what `plain` made. Raises ValueError, TypeError, KeyError or AttributeError for others."""
        return cls(
            str(content["fleet"]),
            {str(name): float(left) for name, left in content["multipliers"].items()},
            {str(name): str(why) for name, why in content["reasons"].items()},
            frozenset(map(str, content["failing"])),
            {str(name): float(share) for name, share in content["shares"].items()},
        )

    def check(self, engines: tuple[str, ...]) -> None:
        """Raise ValueError for numbers that cannot be, and for engines that are not among these."""
        for what, names in (
            ("multipliers", self.multipliers),
            ("reasons", self.reasons),
            ("failing", self.failing),
            ("shares", self.shares),
        ):
            for name in names:
                if name not in engines:
                    raise ValueError(f"memory.{what}: expected engines of the plan, got {name}")
        for name, left in self.multipliers.items():
            if not 0 < left <= 1:
                raise ValueError(f"memory.multipliers: {name}: expected above 0, at most 1, got {left}")
        for name, share in self.shares.items():
            if not (math.isfinite(share) and share >= 0):
                raise ValueError(f"memory.shares: {name}: expected >= 0, got {share}")


def fingerprint(fleet: Fleet) -> str:
    """Return what is the same for the same fleet: who asks, for what, and which engines of what speed serve.

    Rates, health and the network are not in it: they are what changes while a fleet stays the same.
    """
    demands = [(str(demand), sorted(demand.needs)) for demand in fleet.demands]
    engines = [(engine.name, repr(engine.latency), sorted(engine.has)) for engine in fleet.engines]
    return hashlib.blake2b(repr((demands, engines)).encode(), digest_size=16).hexdigest()
