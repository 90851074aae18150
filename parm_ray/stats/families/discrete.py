"""Families with finitely many values: every integral of the tail is a sum."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from parm_ray.stats.families.base import Family, LogTail, Times
from parm_ray.stats.families.checks import at_least, share


class Discrete(Family):
    """values `[m]` seconds, >= 0, each with its probability `[m]`; equal values are put together.

    size: of the sample that it was estimated from; None = it is a law. Raises ValueError for no values,
    values that are not finite or negative, probabilities that are negative or do not sum to 1.
    """

    steps = True

    def __init__(self, values: ArrayLike, probabilities: ArrayLike, size: int | None = None) -> None:
        self.size = size
        found = np.asarray(values, dtype=np.float64).ravel()
        weights = np.asarray(probabilities, dtype=np.float64).ravel()
        if not len(found):
            raise ValueError("values: expected at least one, got none")
        if not np.all(np.isfinite(found) & (found >= 0)):
            raise ValueError("values: expected finite numbers >= 0")
        if len(weights) != len(found):
            raise ValueError(f"probabilities: expected {len(found)}, got {len(weights)}")
        if not (np.all(weights >= 0) and abs(weights.sum() - 1) < 1e-9):
            raise ValueError(f"probabilities: expected numbers >= 0 that sum to 1, got {weights.sum():g}")
        self.values, where = np.unique(found[weights > 0], return_inverse=True)
        self.probabilities = np.bincount(where, weights[weights > 0])
        # P(X > v) for each value v, and 1 in front; exact 0 at the end, whatever rounding says.
        after = np.append(np.cumsum(self.probabilities[::-1])[::-1], 0.0)
        after[0] = 1.0
        self._after = after

    def __repr__(self) -> str:
        span = f"{self.values[0]:g}..{self.values[-1]:g}"
        return f"{type(self).__name__}({len(self.values)} values, {span}, mean {self.mean:.4g})"

    @property
    def log_tail(self) -> LogTail:
        # One value: log S is 0, then minus infinity, which is concave. More: flat, a jump, flat.
        return "concave" if len(self.values) == 1 else "neither"

    @property
    def mean(self) -> float:
        return float(self.values @ self.probabilities)

    @property
    def second_moment(self) -> float:
        return float(self.values**2 @ self.probabilities)

    @property
    def knots(self) -> tuple[float, ...]:
        return tuple(self.values.tolist())

    def survival(self, t: ArrayLike) -> Times:
        tail: Times = self._after[np.searchsorted(self.values, np.asarray(t), side="right")]
        return tail

    def sample(self, rng: np.random.Generator, n: int | tuple[int, ...]) -> Times:
        drawn: Times = rng.choice(self.values, n, p=self.probabilities)
        return drawn


class Deterministic(Discrete):
    """Always `value` seconds."""

    def __init__(self, value: float) -> None:
        at_least("value", value, 0)
        super().__init__([value], [1.0])


class Bimodal(Discrete):
    """`fast` seconds with probability 1 - slow_share, else `slow` seconds."""

    def __init__(self, fast: float, slow: float, slow_share: float) -> None:
        at_least("fast", fast, 0)
        at_least("slow", slow, fast)
        share("slow_share", slow_share)
        super().__init__([fast, slow], [1 - slow_share, slow_share])


class Empirical(Discrete):
    """One of the values of a measured sample `[m]`, seconds, each as likely.

    Its order statistics are those of drawing from the sample with replacement: all that a bootstrap knows.
    For unbiased estimates of E[X_{k:n}] from a sample see `stats.order`.
    """

    def __init__(self, sample: ArrayLike) -> None:
        found = np.asarray(sample, dtype=np.float64).ravel()
        super().__init__(found, np.full(len(found), 1 / max(len(found), 1)), len(found))
