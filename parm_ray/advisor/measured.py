"""What simulated runs of a plan say together, and how sure they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parm_ray.advisor.candidates import Candidate
from parm_ray.advisor.objective import Objective
from parm_ray.advisor.oracle import Trial
from parm_ray.stats import Interval

RESAMPLES = 200
LEVEL = 0.95

# Runs of which all choices are the same for every plan, so that plans are compared run by run.
SEED = 7


@dataclass
class Measured:
    """A plan and its runs, one for each seed, in the same order for every plan."""

    candidate: Candidate
    trials: list[Trial] = field(default_factory=list)

    @property
    def latencies(self) -> NDArray[np.float64]:
        """Seconds of all queries of all runs, `[n]`."""
        return np.concatenate([trial.latency_s for trial in self.trials])

    @property
    def load(self) -> float:
        """Mean over the runs of `Trial.load`."""
        return self._mean(lambda trial: trial.load)

    @property
    def work_s(self) -> float:
        """Server seconds per query."""
        return self._mean(lambda trial: trial.work_s)

    @property
    def reconstructed(self) -> float:
        """Share of the queries that the parity model answered."""
        return self._mean(lambda trial: trial.reconstructed)

    def extra_work(self, none_s: float) -> float:
        """Work beyond `none_s` server seconds per query, as a share of them; below 0 where it saves."""
        return self.work_s / none_s - 1

    def of(self, objective: Objective) -> float:
        """The objective over all queries of all runs, seconds."""
        return objective.of(self.latencies)

    def interval(self, objective: Objective) -> Interval:
        """A bootstrap interval of it over the runs, at 95 %: runs are independent, queries of one are not."""
        return _central(self._resampled(objective, len(self.trials)))

    def ratio(self, other: Measured, objective: Objective) -> Interval:
        """A bootstrap interval of this plan's objective over another's, which had the same runs."""
        both = min(len(self.trials), len(other.trials))
        return _central(self._resampled(objective, both) / other._resampled(objective, both))

    def _resampled(self, objective: Objective, runs: int) -> NDArray[np.float64]:
        """The objective of each of RESAMPLES draws from the first `runs` runs, with replacement."""
        parts = [trial.latency_s for trial in self.trials[:runs]]
        times = np.concatenate(parts)
        order = times.argsort()
        times, of_run = times[order], np.repeat(np.arange(runs), [len(part) for part in parts])[order]
        found = np.empty(RESAMPLES)
        for number, picked in enumerate(_picks(runs)):
            # A run that was picked twice counts twice: weights spare sorting each resample anew.
            weights = np.bincount(picked, minlength=runs)[of_run]
            found[number] = objective.weighted(times, weights)
        return found

    def _mean(self, value: Callable[[Trial], float]) -> float:
        return float(np.mean([value(trial) for trial in self.trials]))


def behind(one: Measured, other: Measured, objective: Objective) -> float:
    """By what share one plan's objective is above another's in the runs that both have."""
    runs = min(len(one.trials), len(other.trials))
    near = objective.coarse(sum(len(trial.latency_s) for trial in one.trials[:runs]))
    mine, others = (Measured(m.candidate, m.trials[:runs]).of(near) for m in (one, other))
    return mine / others - 1


def _picks(runs: int) -> NDArray[np.intp]:
    return np.random.default_rng(SEED).integers(runs, size=(RESAMPLES, runs))


def _central(values: NDArray[np.float64]) -> Interval:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(values, [tail, 1 - tail], method="inverted_cdf")
    return Interval(float(low), float(high))
