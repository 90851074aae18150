"""Choosing an engine for one request, from local state alone: no I/O, no waiting, a few microseconds.

Keyed requests (a session, a user) go by weighted rendezvous hashing: the same key, weights and engines give
the same engine in every process, and when weights move few keys do. Others go to the less loaded of two
engines that are drawn by weight.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from parm_ray.core import ParmError

BOUND = 1.25
"""How far above its fair part of what is in flight an engine may be before the next one in rank is taken."""


class NoEngine(ParmError, LookupError):
    """Nobody can serve the request: no engine is eligible, or none has any weight left."""


class Picker:
    """One front end's choice between engines.

    names: of all engines, in the order of every array here. Weights change by `reweigh`; what is in flight
    is counted by `begin` and `end`, or, where several pickers share the engines, by whoever owns the array
    `in_flight`.
    """

    def __init__(
        self,
        names: Sequence[str],
        rng: random.Random | None = None,
        in_flight: NDArray[np.float64] | None = None,
    ) -> None:
        self.names = tuple(names)
        self._seeds = np.array([_hash(name) for name in self.names], dtype=np.uint64)
        self._rng = rng or random.Random()
        self.in_flight = np.zeros(len(self.names)) if in_flight is None else in_flight
        self._weights = np.zeros(len(self.names))
        self._able: NDArray[np.intp] = np.empty(0, np.intp)

    def reweigh(self, weights: NDArray[np.float64], eligible: NDArray[np.bool_]) -> None:
        """Take new weights, `[engines]`, any scale; an engine that is not eligible is never chosen.

        Raises ValueError for a weight that is negative or not finite.
        """
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ValueError(f"weights: expected finite numbers >= 0, got {weights.tolist()}")
        able = np.flatnonzero(eligible & (weights > 0))
        kept = weights[able]
        self._weights = kept / kept.sum() if len(able) else kept
        self._cumulative = np.cumsum(self._weights)
        # One swap each: a reader has the old arrays or the new ones, and they are used by position together.
        self._able, self._able_seeds = able, self._seeds[able]

    @property
    def able(self) -> NDArray[np.intp]:
        """The engines that may be chosen, ascending."""
        return self._able

    @property
    def weights(self) -> list[float]:
        """What each engine's share is now, `[engines]`; 0 for those that may not be chosen."""
        shares = np.zeros(len(self.names))
        shares[self._able] = self._weights
        return shares.tolist()

    def keyed(self, key: str, without: Collection[int] = ()) -> int:
        """Return the engine of a key: the best ranked one that is not loaded beyond BOUND.

        Its score is ln(u) / w with u from the hash of key and engine, which gives each engine its share of
        the keys (Efraimidis and Spirakis, 2006). without: engines that it may not be, as they have the
        request already. Raises NoEngine.
        """
        self._check()
        scores = np.log(_mixed(self._able_seeds ^ np.uint64(_hash(key)))) / self._weights
        first = int(scores.argmax())
        if not without and self._within(first):
            return int(self._able[first])
        ranks = [int(rank) for rank in np.argsort(-scores) if int(self._able[rank]) not in without]
        if not ranks:
            raise NoEngine("no other engine is eligible with any weight")
        return int(self._able[next((rank for rank in ranks if self._within(rank)), ranks[0])])

    def unkeyed(self, without: Collection[int] = ()) -> int:
        """Return the less loaded, for its weight, of two engines drawn by weight. Raises NoEngine."""
        self._check()
        one, two = (self._drawn(without) for _ in range(2))
        loads = [self.in_flight[self._able[i]] / self._weights[i] for i in (one, two)]
        return int(self._able[one if loads[0] <= loads[1] else two])

    def begin(self, engine: int) -> None:
        """A request was sent to it."""
        self.in_flight[engine] += 1

    def end(self, engine: int) -> None:
        """A request that was sent to it has ended."""
        self.in_flight[engine] = max(0.0, self.in_flight[engine] - 1)

    def _check(self) -> None:
        if not len(self._able):
            raise NoEngine("no engine is eligible with any weight")

    def _drawn(self, without: Collection[int]) -> int:
        if without:
            left = [i for i, engine in enumerate(self._able.tolist()) if engine not in without]
            if not left:
                raise NoEngine("no other engine is eligible with any weight")
            return self._rng.choices(left, self._weights[left].tolist())[0]
        at = np.searchsorted(self._cumulative, self._rng.random() * self._cumulative[-1], side="right")
        return min(int(at), len(self._able) - 1)

    def _within(self, i: int) -> bool:
        """Whether one more leaves engine number i of the able ones within BOUND of its part of all."""
        total = self.in_flight[self._able].sum() + 1
        return bool(self.in_flight[self._able[i]] + 1 <= max(1.0, np.ceil(BOUND * self._weights[i] * total)))


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a number in (0, 1) for each, as if at random (the finaliser of SplitMix64)."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return ((z >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
