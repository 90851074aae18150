"""Service times of the copies of one job: independent, or with a size that all of them share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parm_ray.stats.families import Family


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


Service = Family | SizeSlowdown


def draw_copies(
    x: Service, rng: np.random.Generator, jobs: tuple[int, ...], copies: int
) -> NDArray[np.float64]:
    """Return the service times, seconds, of `copies` copies of each job: shape [*jobs, copies]."""
    if isinstance(x, SizeSlowdown):
        return x.size.sample(rng, jobs)[..., None] * x.slowdown.sample(rng, (*jobs, copies))
    return x.sample(rng, (*jobs, copies))
