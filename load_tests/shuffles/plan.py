"""Who exchanges how much with whom: a pure function of the seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

MB = 10**6


@dataclass(frozen=True, slots=True)
class Exchange:
    """Node `first` sends `size` bytes to node `second`, which may send as many back. `number`: from 0."""

    number: int
    first: int
    second: int
    size: int


def exchanges(nodes: int, size_mb: tuple[float, float], seed: int) -> Iterator[Exchange]:
    """Endless exchanges between the nodes 0 to `nodes` - 1.

    Every ordered pair of distinct nodes is equally likely, sizes are uniform between the two bounds
    (10^6 bytes), and all draws are independent. Raises ValueError for fewer than two nodes.
    """
    if nodes < 2:
        raise ValueError(f"nodes: expected at least 2 to exchange data, got {nodes}")
    return _drawn(nodes, size_mb, np.random.default_rng(seed))


def _drawn(nodes: int, size_mb: tuple[float, float], rng: np.random.Generator) -> Iterator[Exchange]:
    least, most = size_mb
    number = 0
    while True:
        first = int(rng.integers(nodes))
        # Any of the others, counted from the first one's successor.
        second = (first + 1 + int(rng.integers(nodes - 1))) % nodes
        yield Exchange(number, first, second, max(1, round(rng.uniform(least, most) * MB)))
        number += 1


def chunks(size: int, chunk_bytes: int) -> list[int]:
    """Cut `size` bytes into full chunks and a rest; their sum is `size`."""
    full, rest = divmod(size, chunk_bytes)
    return [chunk_bytes] * full + [rest] * (rest > 0)
