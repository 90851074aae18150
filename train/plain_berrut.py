"""Plain ApproxIFER, measured offline: every query is coded, so every answer is decoded, late or not.

This server answers a query whose replica is on time with that replica's own output and could not serve it;
the figures are for the same table as the codes that it does serve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parm_ray.codes.berrut import Matrix, plain_decoding, plain_encoding
from parm_ray.models.predictor import Predictor
from train.evaluate import predict_all

Array = NDArray[Any]


@dataclass(frozen=True)
class Plain:
    """Accuracies, shares in 0..1, over all k answers of a group of k queries and k + 1 workers.

    all_answered: no straggler. mean, worst: one straggler, over which of the workers it is. by_slot: as
    `mean`, of each query of a group by itself.
    """

    all_answered: float
    mean: float
    worst: float
    by_slot: tuple[float, ...]


def measure_plain(
    k: int,
    deployed: Predictor,
    images: Array,
    labels: NDArray[np.int64],
    *,
    rounds: int,
    seed: int = 0,
) -> Plain:
    """Code random groups of the test set, `rounds` times over, and decode with and without each straggler.

    images: raw `[n, *shape]`, of which n // k groups are made in a round.
    """
    workers, encoding = k + 1, plain_encoding(k, 1).astype(np.float32)
    answered = [tuple(range(workers)), *(_without(workers, straggler) for straggler in range(workers))]
    decodings = [plain_decoding(k, 1, kept) for kept in answered]
    right = np.zeros((len(answered), k))
    random, count = np.random.default_rng(seed), len(labels) // k
    for _ in range(rounds):
        members = random.permutation(len(labels))[: count * k].reshape(k, count)
        queries = images[members].astype(np.float32)
        outputs: Array = np.stack([predict_all(deployed, mix(encoding[i], queries)) for i in range(workers)])
        for at, (kept, decoding) in enumerate(zip(answered, decodings, strict=True)):
            said = np.tensordot(decoding, outputs[list(kept)], axes=1).argmax(axis=-1)
            right[at] += (said == labels[members]).sum(axis=1)
    shares = right / (rounds * count)
    lost = shares[1:]
    return Plain(
        all_answered=float(shares[0].mean()),
        mean=float(lost.mean()),
        worst=float(lost.mean(axis=1).min()),
        by_slot=tuple(lost.mean(axis=0).tolist()),
    )


def mix(weights: Matrix | NDArray[np.float32], queries: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return sum_j weights[j] queries[j], `[g, *shape]`, of queries `[k, g, *shape]`."""
    mixed: NDArray[np.float32] = np.tensordot(weights, queries, axes=1).astype(np.float32)
    return mixed


def _without(workers: int, straggler: int) -> tuple[int, ...]:
    return tuple(worker for worker in range(workers) if worker != straggler)
