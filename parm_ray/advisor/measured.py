"""What simulated runs of a plan say together, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parm_ray.advisor.candidates import Candidate
from parm_ray.advisor.objective import Objective
from parm_ray.advisor.oracle import Trial
from parm_ray.stats import Interval

RESAMPLES = 200
LEVEL, Z = 0.95, 1.96

# So few runs give no interval: a bootstrap of two is their least and their largest value.
FEW = 4

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

    def load(self, none: Measured, utilisation: float) -> float:
        """Busy share of the deployed replicas, parity work left out; 1 and more: their queue grows.

        none: the same runs without redundancy, whose share is `utilisation`: what chance gave both of them to
        do cancels out.
        """
        mine, others = (sum(trial.load for trial in one.trials[: self._common(none)]) for one in (self, none))
        return utilisation * mine / others

    @property
    def work_s(self) -> float:
        """Server seconds per query."""
        return self._mean(lambda trial: trial.work_s)

    @property
    def reconstructed(self) -> float:
        """Share of the queries that the parity model answered."""
        return self._mean(lambda trial: trial.reconstructed)

    def extra_work(self, none: Measured) -> float:
        """Server seconds beyond those of no redundancy in the same runs, as a share; below 0: it saves."""
        both = self._common(none)
        mine, others = (sum(trial.work_s for trial in one.trials[:both]) for one in (self, none))
        return mine / others - 1

    def of(self, objective: Objective) -> float:
        """The objective over all queries of all runs, seconds."""
        return objective.of(self.latencies)

    def interval(self, objective: Objective) -> Interval | None:
        """An interval of it at 95 %: what chance did in the runs, and what the sample leaves open.

        None for fewer than `FEW` runs. The former from a bootstrap over runs (queries of one run depend on
        each other). Each resample of the sample has had several runs; how far those of different resamples
        are further apart than those of the same is what the sample's size does (analysis of variance, of the
        logarithm).
        """
        runs = len(self.trials)
        if runs < FEW:
            return None
        logs = self._logs(objective, runs)
        return _widened(_central(self._resampled(objective, runs)), logs, self._samples(runs))

    def ratio(self, other: Measured, objective: Objective) -> Interval | None:
        """The same of this plan's objective over another's, in the runs that both had."""
        both = self._common(other)
        if both < FEW:
            return None
        logs = self._logs(objective, both) - other._logs(objective, both)
        ratios = self._resampled(objective, both) / other._resampled(objective, both)
        return _widened(_central(ratios), logs, self._samples(both))

    def _common(self, other: Measured) -> int:
        return min(len(self.trials), len(other.trials))

    def _logs(self, objective: Objective, runs: int) -> NDArray[np.float64]:
        """Logarithm of each run's objective, or of the nearest one that a run can tell."""
        parts = [trial.latency_s for trial in self.trials[:runs]]
        # One for all runs, which are not equally long: else different percentiles would be compared.
        near = objective.coarse(min(len(part) for part in parts))
        return np.log([near.of(part) for part in parts])

    def _samples(self, runs: int) -> list[int | None]:
        return [trial.sample for trial in self.trials[:runs]]

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


def _widened(interval: Interval, logs: NDArray[np.float64], samples: Sequence[int | None]) -> Interval:
    """Add what the sample leaves open to an interval of what is a mean over resamples."""
    known = {sample for sample in samples if sample is not None}
    groups = [logs[[sample == one for sample in samples]] for one in known]
    repeated = [group for group in groups if len(group) > 1]
    if len(repeated) < 2 or not interval.low > 0:
        return interval
    size = float(np.mean([len(group) for group in repeated]))
    within = float(np.mean([group.var(ddof=1) for group in repeated]))
    between = float(np.var([group.mean() for group in repeated], ddof=1))
    open_to = Z * math.sqrt(max(0.0, between - within / size))
    middle = math.sqrt(interval.low * interval.high)
    down = math.hypot(math.log(middle / interval.low), open_to)
    up = math.hypot(math.log(interval.high / middle), open_to)
    return Interval(middle * math.exp(-down), middle * math.exp(up))


def _central(values: NDArray[np.float64]) -> Interval:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(values, [tail, 1 - tail], method="inverted_cdf")
    return Interval(float(low), float(high))
