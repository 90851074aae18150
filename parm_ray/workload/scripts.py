"""Scripts of slowness: which calls are slow, and by how much, decided ahead from a seed.

A script answers `factor(server, call, t)`: what the service time of call number `call` (0, 1, ...) of
a server is multiplied by if it begins `t` seconds into the run. The answer depends on the seed and
those three alone, never on who asked before, so a real run and a simulation can be given one script.
Servers are known by name; a name has to mean the same server in both.

    IndependentCalls   each call by itself, one factor       reads server and call
    HeavyTailedCalls   each call by itself, Pareto factors   reads server and call
    SlowEpisodes       a server is slow for a while          reads server and t
    CallsAndEpisodes   both at once, factors multiplied      reads all three
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from functools import lru_cache
from hashlib import blake2b
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.workload.ranges import number, numbers, whole

Factors = NDArray[np.float64]

# Numbers drawn at once. Part of what a seed means: another block makes other scripts.
_BLOCK = 1024
_CALLS, _EPISODES = 1, 2


class SlownessScript(Protocol):
    """What a run or a simulation asks of any script."""

    @property
    def mean_factor(self) -> float:
        """Expected factor; inf where there is none. What a utilisation has to be computed with."""

    def factor(self, server: str, call: int, t: float) -> float:
        """The factor (>= 1) of a server's call number `call` that begins at `t` >= 0 seconds."""


class CallScript(ABC):
    """Scripts whose factors are independent from call to call, and so do not depend on time."""

    def __init__(self, seed: int) -> None:
        self._seed = whole("seed", seed)
        self._latest: dict[str, tuple[int, Factors]] = {}

    @property
    @abstractmethod
    def mean_factor(self) -> float:
        """Expected factor; inf where there is none."""

    def factor(self, server: str, call: int, t: float = 0.0) -> float:
        """The factor of call number `call` >= 0 of a server; `t` is of no account."""
        number_of_block, i = divmod(call, _BLOCK)
        return self._block(server, number_of_block).item(i)

    def factors(self, server: str, first: int, n: int) -> Factors:
        """The factors of a server's calls first .. first + n - 1, `[n]`."""
        first, n = whole("first", first), whole("n", n)
        blocks = range(first // _BLOCK, (first + n - 1) // _BLOCK + 1) if n else range(0)
        drawn = [self._block(server, b) for b in blocks]
        begin = first % _BLOCK
        return np.concatenate(drawn)[begin : begin + n] if n else np.empty(0)

    def _block(self, server: str, block: int) -> Factors:
        # Each block has a generator of its own, so any call can be asked for at the cost of one block.
        # Calls are asked for in about their order: the last block of each server is enough to keep.
        latest = self._latest.get(server)
        if latest is not None and latest[0] == block:
            return latest[1]
        if block < 0:
            raise ValueError("call: expected a number >= 0")
        drawn = self._draw(_generator(self._seed, _CALLS, server, block).random((_BLOCK, 2)))
        self._latest[server] = block, drawn
        return drawn

    @abstractmethod
    def _draw(self, uniform: NDArray[np.float64]) -> Factors:
        """Factors `[b]` from uniform numbers in [0, 1), `[b, 2]`."""


class IndependentCalls(CallScript):
    """A share of the calls is slower by one factor. With the same seed, a larger share is a superset."""

    def __init__(self, seed: int, share: float, factor: float) -> None:
        """Raises ValueError unless seed >= 0, 0 <= share <= 1 and factor >= 1."""
        super().__init__(seed)
        self.share = number("share", share, at_least=0, at_most=1)
        self.slow_factor = number("factor", factor, at_least=1)

    @property
    def mean_factor(self) -> float:
        return 1 + self.share * (self.slow_factor - 1)

    def _draw(self, uniform: NDArray[np.float64]) -> Factors:
        return np.where(uniform[:, 0] < self.share, self.slow_factor, 1.0)


class HeavyTailedCalls(CallScript):
    """A share of the calls is slower by a Pareto factor, P(factor > x) = x^-shape, at most `at_most`."""

    def __init__(self, seed: int, share: float, shape: float, at_most: float = 1000.0) -> None:
        """Raises ValueError unless seed >= 0, 0 <= share <= 1, shape >= 0.05 and 1 <= at_most <= 1e6."""
        super().__init__(seed)
        self.share = number("share", share, at_least=0, at_most=1)
        self.shape = number("shape", shape, at_least=0.05)
        self.at_most = number("at_most", at_most, at_least=1, at_most=1e6)

    @property
    def mean_factor(self) -> float:
        # The mean of min(X, c) is 1 plus the integral of P(X > x) = x^-shape over 1 .. c.
        left = self.shape - 1
        above = math.log(self.at_most) if abs(left) < 1e-9 else (1 - self.at_most**-left) / left
        return 1 + self.share * above

    def _draw(self, uniform: NDArray[np.float64]) -> Factors:
        # By its logarithm, exponential of mean 1/shape, which is cut off before it can overflow.
        logarithm = -np.log1p(-uniform[:, 1]) / self.shape
        pareto = np.exp(np.minimum(logarithm, math.log(self.at_most)))
        return np.where(uniform[:, 0] < self.share, pareto, 1.0)


class SlowEpisodes:
    """Every server alternates between normal and slow, independently of the others (an on-off process).

    factor: while slow. mean_s: mean seconds that a slow episode lasts, exponential or log-normal with
    `sigma`, the standard deviation of the logarithm. mean_between_s: mean seconds from the end of an
    episode to the beginning of the next, exponential. At time 0 the process has been going on for ever:
    a server is slow at any time with probability `slow_share`, and a run needs no warm-up.
    """

    def __init__(
        self,
        seed: int,
        factor: float,
        mean_s: float,
        mean_between_s: float,
        lasting: Literal["exponential", "lognormal"] = "exponential",
        sigma: float = 1.0,
    ) -> None:
        """Raises ValueError unless seed >= 0, factor >= 1, times > 0, 0 <= sigma <= 5, a known lasting."""
        self._seed = whole("seed", seed)
        self.slow_factor = number("factor", factor, at_least=1)
        self.mean_s = number("mean_s", mean_s, above=0, unit="seconds")
        self.mean_between_s = number("mean_between_s", mean_between_s, above=0, unit="seconds")
        if lasting not in ("exponential", "lognormal"):
            raise ValueError(f"lasting: expected exponential or lognormal, got {lasting!r}")
        self.lasting = lasting
        self.sigma = number("sigma", sigma, at_least=0, at_most=5)
        self._timelines: dict[str, _Timeline] = {}

    @property
    def slow_share(self) -> float:
        """Share of the time for which a server is slow, 0..1."""
        return self.mean_s / (self.mean_s + self.mean_between_s)

    @property
    def mean_factor(self) -> float:
        """Expected factor of calls whose times of beginning have nothing to do with the slowness."""
        return 1 + self.slow_share * (self.slow_factor - 1)

    def factor(self, server: str, call: int, t: float) -> float:
        """The factor of a server's call that begins at `t` >= 0 seconds; `call` is of no account."""
        return self.factor_at(server, t)

    def factor_at(self, server: str, t: float) -> float:
        """The factor of a server at `t` >= 0 seconds into the run."""
        if not 0 <= t < math.inf:
            raise ValueError(f"t: expected seconds >= 0, got {t}")
        return self.slow_factor if self._timeline(server).slow(t) else 1.0

    def factors_at(self, server: str, times: ArrayLike) -> Factors:
        """The factors of a server at `times` `[n]`, seconds >= 0 in any order."""
        at = numbers("times", times)
        return np.where(self._timeline(server).slow_many(at), self.slow_factor, 1.0)

    def episodes(self, server: str, until_s: float) -> NDArray[np.float64]:
        """Begin and end of every slow episode of a server that begins before `until_s`, `[episodes, 2]`.

        One under way at time 0 begins at 0. Seconds into the run.
        """
        until_s = number("until_s", until_s, at_least=0, unit="seconds")
        return self._timeline(server).episodes(until_s)

    def _timeline(self, server: str) -> _Timeline:
        timeline = self._timelines.get(server)
        if timeline is None:
            timeline = self._timelines[server] = _Timeline(self, _generator(self._seed, _EPISODES, server, 0))
        return timeline

    def draw_lasting(self, rng: np.random.Generator, n: int) -> NDArray[np.float64]:
        """Seconds that n whole episodes last, `[n]`."""
        if self.lasting == "exponential":
            return rng.exponential(self.mean_s, n)
        return rng.lognormal(math.log(self.mean_s) - self.sigma**2 / 2, self.sigma, n)

    def draw_left(self, rng: np.random.Generator) -> float:
        """Seconds that an episode found under way at time 0 still lasts."""
        if self.lasting == "exponential":
            return float(rng.exponential(self.mean_s))
        # The longer an episode the likelier it is found (its length counts as a weight, which shifts a
        # log-normal by sigma squared), and it is found at a uniform place within itself.
        mu = math.log(self.mean_s) - self.sigma**2 / 2
        return float(rng.lognormal(mu + self.sigma**2, self.sigma) * rng.random())


class CallsAndEpisodes:
    """Slow calls on servers that are slow for a while too: the two factors are multiplied."""

    def __init__(self, calls: CallScript, episodes: SlowEpisodes) -> None:
        self.calls = calls
        self.episodes = episodes

    @property
    def mean_factor(self) -> float:
        """Expected factor, by the independence of the two."""
        return self.calls.mean_factor * self.episodes.mean_factor

    def factor(self, server: str, call: int, t: float) -> float:
        """The factor of a server's call number `call` >= 0 that begins at `t` >= 0 seconds."""
        return self.calls.factor(server, call) * self.episodes.factor_at(server, t)


class _Timeline:
    """When one server changes between normal and slow; drawn further whenever a later time is asked for."""

    def __init__(self, script: SlowEpisodes, rng: np.random.Generator) -> None:
        self._script = script
        self._rng = rng
        # Changes ascend: normal from 0 to the first, slow to the second, and so on. A server that is slow
        # from the start changes at 0.
        self._changes: list[float] = []
        if rng.random() < script.slow_share:
            self._changes = [0.0, script.draw_left(rng)]

    def slow(self, t: float) -> bool:
        """Whether it is slow at `t` seconds."""
        self._reach(t)
        # On a list: for one time at once that is ten times as fast as an array's searchsorted.
        return bisect_right(self._changes, t) % 2 == 1

    def slow_many(self, times: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether it is slow at each of the times `[n]`, n >= 1."""
        self._reach(float(times.max()))
        slow: NDArray[np.bool_] = np.searchsorted(self._changes, times, side="right") % 2 == 1
        return slow

    def episodes(self, until: float) -> NDArray[np.float64]:
        """Begins and ends of the episodes that begin before `until`, `[episodes, 2]`."""
        self._reach(until)
        pairs = np.array(self._changes).reshape(-1, 2)
        return pairs[pairs[:, 0] < until]

    def _reach(self, t: float) -> None:
        # The last change ends an episode; what comes after it is not known yet.
        while not self._changes or self._changes[-1] <= t:
            between = self._rng.exponential(self._script.mean_between_s, _BLOCK)
            lasting = self._script.draw_lasting(self._rng, _BLOCK)
            steps = np.stack([between, lasting], axis=1).ravel()
            begin = self._changes[-1] if self._changes else 0.0
            self._changes.extend((begin + np.cumsum(steps)).tolist())


def _generator(seed: int, purpose: int, server: str, block: int) -> np.random.Generator:
    return np.random.default_rng([seed, purpose, _name_number(server), block])


@lru_cache(maxsize=4096)
def _name_number(server: str) -> int:
    # Not hash(): that differs from process to process.
    return int.from_bytes(blake2b(server.encode(), digest_size=8).digest(), "big")
