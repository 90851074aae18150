"""Service times of the copies of one job: independent, with a size that all of them share, or as measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.stats.families import Discrete, Family


@dataclass(frozen=True)
class SizeSlowdown:
    """S&X: a copy takes size x slowdown seconds; the size is the job's, the slowdown each server's own.

    size: how long the job takes a server at its usual speed, seconds. slowdown: a factor. Gardner,
    Harchol-Balter and Scheller-Wolf, "A better model for job redundancy: decoupling server slowdown and job
    size", IEEE/ACM Transactions on Networking 25(6), 2017. The least of r copies is the size times the least
    of r slowdowns, so that copies help against slow servers alone, never against long jobs.
    """

    size: Family
    slowdown: Family

    @property
    def mean(self) -> float:
        """E[X] in seconds."""
        return self.size.mean * self.slowdown.mean

    @property
    def second_moment(self) -> float:
        """E[X^2] in seconds squared."""
        return self.size.second_moment * self.slowdown.second_moment

    @property
    def cv2(self) -> float:
        """Squared coefficient of variation, Var(X) / E[X]^2."""
        return self.second_moment / self.mean**2 - 1

    def min_mean(self, r: int) -> float:
        """Return E of the least of r copies of one job, seconds."""
        return self.size.mean * self.slowdown.min_mean(r)

    def min_second_moment(self, r: int) -> float:
        """Return E of its square, seconds squared."""
        return self.size.second_moment * self.slowdown.min_second_moment(r)


class Paired:
    """Copies as they were measured: `pairs` `[n, 2]`, seconds, each row one job served twice.

    Of more than two copies pairs say nothing: a third is taken to be as slow as the second, so that it is
    never the first to end. Raises ValueError for another shape, no pair, or times that are not positive.
    """

    def __init__(self, pairs: ArrayLike) -> None:
        found = np.asarray(pairs, dtype=np.float64)
        if found.ndim != 2 or found.shape[1] != 2 or not len(found):
            raise ValueError(f"pairs: expected shape [n, 2] with n >= 1, got {list(found.shape)}")
        if not np.all(np.isfinite(found) & (found > 0)):
            raise ValueError("pairs: expected finite numbers > 0")
        self.pairs = found

    @property
    def mean(self) -> float:
        """E[X] in seconds, over both of all pairs."""
        return float(self.pairs.mean())

    @property
    def second_moment(self) -> float:
        """E[X^2] in seconds squared."""
        return float(np.mean(self.pairs**2))

    @property
    def cv2(self) -> float:
        """Squared coefficient of variation, Var(X) / E[X]^2."""
        return max(0.0, self.second_moment / self.mean**2 - 1)

    def min_mean(self, r: int) -> float:
        """Return E of the least of r copies of one job, seconds; of more than two, as of two."""
        return self.mean if r == 1 else float(self.pairs.min(axis=1).mean())

    def min_second_moment(self, r: int) -> float:
        """Return E of its square, seconds squared."""
        return self.second_moment if r == 1 else float(np.mean(self.pairs.min(axis=1) ** 2))

    def draw(self, rng: np.random.Generator, jobs: tuple[int, ...], copies: int) -> NDArray[np.float64]:
        """Return service times, seconds, `[*jobs, copies]`: a pair for each job, either of it first."""
        rows = self.pairs[rng.integers(len(self.pairs), size=jobs)]
        first = rng.integers(2, size=jobs)[..., None]
        order = np.concatenate([first, np.repeat(1 - first, max(copies - 1, 0), axis=-1)], axis=-1)
        return np.take_along_axis(rows, order[..., :copies], axis=-1)


Service = Family | SizeSlowdown | Paired


def draw_copies(
    x: Service, rng: np.random.Generator, jobs: tuple[int, ...], copies: int
) -> NDArray[np.float64]:
    """Return the service times, seconds, of `copies` copies of each job: shape [*jobs, copies]."""
    if isinstance(x, SizeSlowdown):
        return x.size.sample(rng, jobs)[..., None] * x.slowdown.sample(rng, (*jobs, copies))
    if isinstance(x, Paired):
        return x.draw(rng, jobs, copies)
    return x.sample(rng, (*jobs, copies))


def resampled(x: Service, rng: np.random.Generator) -> Service:
    """Return a bootstrap resample (Efron, 1979) of what was measured; a law that was given as it is."""
    if isinstance(x, Paired):
        return Paired(x.pairs[rng.integers(len(x.pairs), size=len(x.pairs))])
    if isinstance(x, Discrete) and x.size is not None:
        # Of censored times, too: as if as many calls had ended as were seen.
        return Discrete(x.values, rng.multinomial(x.size, x.probabilities) / x.size, x.size)
    return x
