"""Service-time models: how long one call occupies a replica, in seconds.

One protocol, `ServiceTime`; `from_mapping` makes one from configuration. The distributions are in
`distributions`, the straggler model of the load tests is here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from parm_ray.workload.distributions import (
    Deterministic,
    Distribution,
    Empirical,
    Exponential,
    Gamma,
    Hyperexponential,
    LogNormal,
    Pareto,
    ShiftedExponential,
    Weibull,
)
from parm_ray.workload.ranges import number

__all__ = [
    "KINDS",
    "Deterministic",
    "Empirical",
    "Exponential",
    "Gamma",
    "Hyperexponential",
    "LogNormal",
    "Pareto",
    "ServiceTime",
    "ShiftedExponential",
    "SlowCalls",
    "Weibull",
    "from_mapping",
]


class ServiceTime(Protocol):
    """A distribution of service times, bound to a generator."""

    @property
    def mean_s(self) -> float:
        """Expected seconds per call; what a utilisation has to be computed from."""

    @property
    def second_moment_s2(self) -> float:
        """Expected square, seconds squared; inf where there is none."""

    def draw(self) -> float:
        """Seconds that the next call takes."""

    def draw_many(self, n: int) -> NDArray[np.float64]:
        """Seconds that the next n calls take, `[n]`: what n times `draw` would have given."""


class SlowCalls(Distribution):
    """A fixed service time, except that a share of calls is slower by a factor.

    The straggler model of tail-latency experiments: a call takes `service_s` seconds, or
    `service_s * slow_factor` with probability `slow_share`, independently of all others. The mean is
    `service_s * (1 + slow_share * (slow_factor - 1))`; that, not `service_s`, is what a utilisation
    has to be computed from.
    """

    def __init__(
        self, service_s: float, slow_share: float, slow_factor: float, rng: np.random.Generator
    ) -> None:
        """Raises ValueError unless service_s >= 0, 0 <= slow_share <= 1 and slow_factor >= 1."""
        super().__init__(rng)
        self.service_s = number("service_s", service_s, at_least=0, unit="seconds")
        self.slow_share = number("slow_share", slow_share, at_least=0, at_most=1)
        self.slow_factor = number("slow_factor", slow_factor, at_least=1)

    @property
    def mean_s(self) -> float:
        """Expected seconds per call."""
        return self.service_s * (1 + self.slow_share * (self.slow_factor - 1))

    @property
    def second_moment_s2(self) -> float:
        """Expected square, seconds squared."""
        return self.service_s**2 * (1 + self.slow_share * (self.slow_factor**2 - 1))

    def draw(self) -> float:
        """Seconds that the next call takes. One uniform number is drawn per call."""
        # random() is in [0, 1): never slow at share 0, always slow at share 1.
        slow = self._rng.random() < self.slow_share
        return self.service_s * (self.slow_factor if slow else 1.0)

    def _draw_many(self, n: int) -> NDArray[np.float64]:
        slow = self._rng.random(n) < self.slow_share
        return self.service_s * np.where(slow, self.slow_factor, 1.0)


KINDS: dict[str, Callable[..., ServiceTime]] = {
    "deterministic": Deterministic,
    "exponential": Exponential,
    "shifted_exponential": ShiftedExponential,
    "gamma": Gamma,
    "weibull": Weibull,
    "lognormal": LogNormal,
    "pareto": Pareto,
    "hyperexponential": Hyperexponential,
    "bimodal": SlowCalls,
    "empirical": Empirical,
}


def from_mapping(mapping: Mapping[str, object], rng: np.random.Generator) -> ServiceTime:
    """Make the service time that a configuration names: `{"kind": "exponential", "mean_s": 0.05}`.

    The other keys are the arguments of the kind's class. Raises ValueError for a kind or key that is
    unknown or missing (the message lists the legal ones), or a value out of range.
    """
    given = {key: value for key, value in mapping.items() if key != "kind"}
    kind = mapping.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        got = repr(kind) if "kind" in mapping else "nothing"
        raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {got}")
    legal = [name for name in inspect.signature(KINDS[kind]).parameters if name != "rng"]
    for key in given:
        if key not in legal:
            raise ValueError(f"{key}: unknown key of kind {kind}, expected {', '.join(legal)}")
    for key in legal:
        if key not in given:
            raise ValueError(f"{key}: missing, kind {kind} expects {', '.join(legal)}")
    return KINDS[kind](**given, rng=rng)
