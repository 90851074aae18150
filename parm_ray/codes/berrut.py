"""Berrut rational interpolation: the deployed model itself answers the parity queries, nothing is trained.

The queries are values of a function u at k nodes, u is interpolated and its values elsewhere are the
coded queries; F(u(z)) is a function too, which the answers at hand interpolate in turn (Soleymani, Ali,
Mahdavifar, Avestimehr, "ApproxIFER", AAAI 2022). Berrut's interpolant, with alternating signs,

    w_j(z) = [(-1)^j / (z - x_j)] / sum_l [(-1)^l / (z - x_l)]

has no pole on the real line as long as the signs alternate over the nodes in order, so what is lost takes
its sign with it (Berrut 1988). It is no polynomial: from three nodes on not even a linear F is decoded
exactly.

Two schemes. *Systematic*, which this server can serve: the k queries go to their replicas as they are and
r coded ones beside them. *Plain*, ApproxIFER's own: k + r coded queries and not one of the k as it was, so
that every answer is decoded, late or not; here are its matrices, for `train` to measure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.codes.answers import stretches
from parm_ray.codes.base import Array, Batch
from parm_ray.codes.linear import LinearEncoder
from parm_ray.codes.linear_decoding import LinearDecoder
from parm_ray.codes.shape import check_count
from parm_ray.core import InvalidInput

Matrix = NDArray[np.float64]

MAX_K, MAX_R = 64, 4
# Nodes lie in -1..1; the closest two of 64 and their spares are 1e-3 apart.
_SAME = 1e-9


def interpolation(nodes: ArrayLike, points: ArrayLike) -> Matrix:
    """Return `[points, nodes]`: row i holds the weights of Berrut's interpolant at point i; they sum to 1.

    nodes: distinct, in any order (signs alternate over them as sorted). A point within 1e-9 of a node has
    that node's value: the quotient would be 0/0.
    Raises InvalidInput naming `nodes` if two of them coincide or there is none.
    """
    x, z = np.asarray(nodes, np.float64).ravel(), np.asarray(points, np.float64).ravel()
    order = np.argsort(-x)
    if not x.size or (np.abs(np.diff(x[order])) < _SAME).any():
        raise InvalidInput("nodes", "one or more, no two the same", x.tolist())
    signs = np.empty(x.size)
    signs[order] = (-1.0) ** np.arange(x.size)
    distances = z[:, None] - x
    weights = (np.abs(distances) < _SAME).astype(np.float64)
    between = ~weights.any(axis=1)
    terms = signs / distances[between]
    weights[between] = terms / terms.sum(axis=1, keepdims=True)
    return weights


def query_nodes(k: int) -> Matrix:
    """Return `[k]`, Chebyshev's points of the first kind, cos((2j + 1) pi / 2k): where the queries lie."""
    return np.cos((2 * np.arange(k) + 1) * np.pi / (2 * k))


def spare_nodes(k: int, r: int) -> Matrix:
    """Return `[r]`: the most central of cos(i pi / k), i = 0..k, which lie between the query nodes.

    In angles they halve the way between neighbours, so none ever meets a query node; central ones mix the
    queries most evenly (k = 2: the mean of both). Raises InvalidInput naming `r` beyond k + 1 nodes.
    """
    if r > k + 1:
        raise InvalidInput("r", f"1 to {k + 1} for berrut at k = {k}", r)
    central = sorted(range(k + 1), key=lambda i: (abs(2 * i - k), i))[:r]
    return np.cos(np.array(central) * np.pi / k)


class BerrutEncoder(LinearEncoder):
    """Parity l is the interpolant of the k queries at spare node l: a weighted sum, the weights' sum 1.

    Unlike other weighted sums it needs no weights that a linear system could be solved with, and looks
    to the model like a query: it is normalised as one. k: 1..64; r: 1..4, at most k + 1.
    Raises InvalidInput naming `k` or `r`.
    """

    def __init__(self, k: int, r: int = 1) -> None:
        self.name = "berrut"
        self.k = check_count("k", k, 1, MAX_K)
        self.r = check_count("r", r, 1, MAX_R)
        self.weights = interpolation(query_nodes(self.k), spare_nodes(self.k, self.r))
        self.weights.flags.writeable = False
        self._rows = {}

    def normalisation(self, row: int, mean: ArrayLike, std: ArrayLike) -> tuple[Array, Array]:
        """Those of the queries: the deployed model takes a parity for one of them."""
        check_count("row", row, 0, self.r - 1)
        return np.asarray(mean, np.float32), np.asarray(std, np.float32)


class BerrutDecoder(LinearDecoder):
    """A missing output is the interpolant, at its node, of all the outputs and parities at hand.

    Recovers as `LinearDecoder` does, up to as many slots as parities, but interpolates where that solves:
    errors grow less and nothing is exact, except one loss at k = 2. A slot that stayed empty counts as a
    known zero. Any answers of k + r would do to interpolate; with fewer than k it is not worth its name.
    """

    name = "berrut"

    def __init__(self, encoder: BerrutEncoder) -> None:
        super().__init__(encoder.weights)
        self._nodes = np.concatenate([query_nodes(self.k), spare_nodes(self.k, self.r)])
        self._weights_of: dict[tuple[tuple[int, ...], tuple[int, ...]], Matrix] = {}

    def _solve(
        self,
        outputs: Sequence[Batch],
        parities: Sequence[Batch],
        lengths: Sequence[int],
        missing: tuple[int, ...],
        rows: tuple[int, ...],
    ) -> dict[int, Array]:
        answered = {slot: output for slot, output in enumerate(outputs) if output is not None}
        answered |= {self.k + row: parity for row in rows if (parity := parities[row]) is not None}
        like = answered[self.k + rows[0]]
        decoded = {slot: np.empty((lengths[slot], *like.shape[1:]), like.dtype) for slot in missing}
        for stretch, unknown in stretches(lengths, missing):
            for slot, weights in zip(unknown, self._interpolation(unknown, rows), strict=True):
                total = np.zeros_like(decoded[slot][stretch], np.result_type(like.dtype, np.float32))
                for node, answer in answered.items():
                    part = answer[stretch]
                    total[: len(part)] += total.dtype.type(weights[node]) * part
                decoded[slot][stretch] = total
        return decoded

    def _interpolation(self, unknown: tuple[int, ...], rows: tuple[int, ...]) -> Matrix:
        """Return `[unknown, k + r]`, the weights of a pattern; 0 for answers that are not there."""
        key = (unknown, rows)
        if key not in self._weights_of:
            kept = [slot for slot in range(self.k) if slot not in unknown]
            kept += [self.k + row for row in rows]
            weights = np.zeros((len(unknown), self.k + self.r))
            weights[:, kept] = interpolation(self._nodes[kept], self._nodes[list(unknown)])
            self._weights_of[key] = weights
        return self._weights_of[key]


def plain_encoding(k: int, s: int) -> Matrix:
    """Return `[k + s, k]`: how ApproxIFER makes the queries of its k + s workers, s stragglers allowed.

    Worker i lies at cos(i pi / N), N = k + s - 1. Where a worker's node is a query's (s = 2 with odd k,
    and s = 3 with k = 2, 6, 10, ...) it gets that very query. Raises InvalidInput naming `k` or `s`.
    """
    return interpolation(query_nodes(check_count("k", k, 1, MAX_K)), _worker_nodes(k, s))


def plain_decoding(k: int, s: int, answered: Sequence[int]) -> Matrix:
    """Return `[k, answered]`: how all k outputs are read off the answers of the workers in `answered`.

    Raises InvalidInput naming `answered` unless it is 1 to k + s different workers of 0..k + s - 1.
    """
    nodes = _worker_nodes(k, s)
    if not answered or len(set(answered)) < len(answered) or not set(answered) <= set(range(len(nodes))):
        raise InvalidInput("answered", f"different workers of 0 to {len(nodes) - 1}", list(answered))
    return interpolation(nodes[list(answered)], query_nodes(k))


def _worker_nodes(k: int, s: int) -> Matrix:
    return np.cos(np.arange(k + check_count("s", s, 1, MAX_R)) * np.pi / (k + s - 1))
