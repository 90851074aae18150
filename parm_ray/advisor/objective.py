"""What is to be made small: the mean latency, or a percentile of it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parm_ray.stats import percentile

_WORDS = re.compile(r"p(\d{1,2}(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Objective:
    """quantile: which, between 0 and 1; None = the mean. Raises ValueError for another quantile."""

    quantile: float | None = 0.99

    def __post_init__(self) -> None:
        if self.quantile is not None and not 0 < self.quantile < 1:
            raise ValueError(f"objective: expected a quantile between 0 and 1, got {self.quantile}")

    @classmethod
    def parse(cls, words: str) -> Objective:
        """Return what "mean", "p99" or "p99.9" name. Raises ValueError for other words."""
        if words == "mean":
            return cls(None)
        found = _WORDS.fullmatch(words)
        if found is None or not float(found[1]) > 0:
            raise ValueError(f'objective: expected "mean", or a percentile such as "p99.9", got {words!r}')
        # As a decimal: 99.9 / 100 is 0.9990000000000001 in binary.
        return cls(round(float(found[1]) / 100, 12))

    def __str__(self) -> str:
        return "mean" if self.quantile is None else f"p{100 * self.quantile:.10g}"

    def of(self, latencies: NDArray[np.float64]) -> float:
        """Return it for latencies `[n]`, n >= 1, in their unit; inf where a failed query decides it."""
        return float(latencies.mean()) if self.quantile is None else percentile(latencies, self.quantile)

    def weighted(self, ascending: NDArray[np.float64], weights: NDArray[np.int_]) -> float:
        """Return it for latencies `[n]` in ascending order that count `weights` `[n]` times each."""
        if self.quantile is None:
            return float((ascending * weights).sum() / weights.sum())
        reached = weights.cumsum()
        # The nearest rank, as in `stats.percentile`.
        rank = max(1, math.ceil(self.quantile * int(reached[-1]) * (1 - 1e-12)))
        return float(ascending[np.searchsorted(reached, rank)])

    def coarse(self, queries: int, above: int = 10) -> Objective:
        """Return the nearest one that so few queries can tell: a percentile with `above` of them above it."""
        if self.quantile is None or queries * (1 - self.quantile) >= above:
            return self
        # Rounded down: it must not need more queries than there are.
        return Objective(max(0.5, math.floor(1e4 * (1 - above / queries)) / 1e4))
