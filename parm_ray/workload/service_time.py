"""Service-time models: how long one call occupies a replica, in seconds."""

from __future__ import annotations

import math

import numpy as np


class SlowCalls:
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
        if not (math.isfinite(service_s) and service_s >= 0):
            raise ValueError(f"service_s: expected seconds >= 0, got {service_s}")
        if not 0 <= slow_share <= 1:
            raise ValueError(f"slow_share: expected 0..1, got {slow_share}")
        if not (math.isfinite(slow_factor) and slow_factor >= 1):
            raise ValueError(f"slow_factor: expected >= 1, got {slow_factor}")
        self.service_s = service_s
        self.slow_share = slow_share
        self.slow_factor = slow_factor
        self._rng = rng

    @property
    def mean_s(self) -> float:
        """Expected seconds per call."""
        return self.service_s * (1 + self.slow_share * (self.slow_factor - 1))

    def draw(self) -> float:
        """Seconds that the next call takes. One uniform number is drawn per call."""
        # random() is in [0, 1): never slow at share 0, always slow at share 1.
        slow = self._rng.random() < self.slow_share
        return self.service_s * (self.slow_factor if slow else 1.0)
