"""Accuracy with and without losses, through the numpy code and the predictors that are served.

A_a, accuracy when available: the deployed model's own. A_d, degraded: of answers reconstructed by
the decoder. A_o = (1 - f) A_a + f A_d when a share f of the answers is late (ParM, SOSP'19).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.codes import Code
from parm_ray.models.predictor import Predictor

Array = NDArray[np.generic]

LATE_SHARES = (0.01, 0.05, 0.10)
_CHUNK = 250


@dataclass(frozen=True)
class Degraded:
    """What one parity row is worth, all as shares in 0..1.

    a_d: mean over slots of a_d_by_slot, the accuracy of a slot reconstructed when it alone is lost
    and this row alone has answered. agreement: how often that is the deployed model's own class.
    a_d_short: the same accuracy in groups whose last 1 to k-1 slots stayed empty. a_d_r_lost: with
    r > 1, the accuracy of every r slots lost at once, reconstructed from all rows; else a_d.
    """

    a_d: float
    a_d_by_slot: tuple[float, ...]
    agreement: float
    a_d_short: float
    a_d_r_lost: float


def accuracy(outputs: Array, labels: NDArray[np.int64]) -> float:
    """Share of `[n, classes]` whose largest entry is at the label `[n]`."""
    return float(np.mean(outputs.argmax(axis=-1) == labels))


def overall(a_a: float, a_d: float, late: float) -> float:
    """Return A_o = (1 - late) A_a + late A_d."""
    return (1 - late) * a_a + late * a_d


def predict_all(predictor: Predictor, inputs: Array) -> Array:
    """Answer `[n, *input]` in pieces; returns `[n, *output]`."""
    return np.concatenate(
        [predictor.predict(inputs[at : at + _CHUNK]) for at in range(0, len(inputs), _CHUNK)]
    )


def evaluate(
    code: Code,
    parities: Sequence[Predictor],
    images: Array,
    labels: NDArray[np.int64],
    outputs: Array,
    fill: ArrayLike | None,
    *,
    rounds: int,
    seed: int = 0,
) -> list[Degraded]:
    """Simulate every loss in random groups of the test set; return one result per parity row.

    images: raw `[n, *shape]`; outputs: the deployed model's answers, `[n, classes]`. Each round
    shuffles the set into n // k groups and leaves the rest out.
    """
    random = np.random.default_rng(seed)
    tallies = [_Tally(code.k) for _ in range(code.r)]
    for _ in range(rounds):
        order = random.permutation(len(labels))[: len(labels) // code.k * code.k]
        members = list(order.reshape(code.k, -1))
        for filled in range(code.k, 0, -1):
            own = [outputs[m] for m in members[:filled]] + [None] * (code.k - filled)
            slots = [images[m] for m in members[:filled]] + [None] * (code.k - filled)
            answers = [predict_all(p, x) for p, x in zip(parities, code.encode(slots, fill), strict=True)]
            for row, tally in enumerate(tallies):
                only = [answer if at == row else None for at, answer in enumerate(answers)]
                for lost in range(filled):
                    rebuilt = _lose(code, own, only, (lost,))[lost]
                    kind = "full" if filled == code.k else "short"
                    tally.add(kind, lost, rebuilt, labels[members[lost]], own[lost])
            if filled == code.k and code.r > 1:
                for together in combinations(range(code.k), code.r):
                    for lost, rebuilt in _lose(code, own, answers, together).items():
                        for tally in tallies:
                            tally.add("r_lost", lost, rebuilt, labels[members[lost]], own[lost])
    return [tally.result() for tally in tallies]


def _lose(
    code: Code, own: Sequence[Array | None], parities: Sequence[Array | None], lost: tuple[int, ...]
) -> dict[int, Array]:
    """Decode the `lost` slots as if their own answers had never come."""
    left = [None if slot in lost else output for slot, output in enumerate(own)]
    lengths = [0 if output is None else len(output) for output in own]
    return dict(code.decode(left, parities, lengths, list(lost)))


class _Tally:
    """Counts right and agreeing reconstructions by kind of loss and by slot."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._counts: dict[tuple[str, int], NDArray[np.int64]] = {}

    def add(self, kind: str, slot: int, rebuilt: Array, labels: Array, own: Array | None) -> None:
        assert own is not None
        classes = rebuilt.argmax(axis=-1)
        seen = [len(classes), np.sum(classes == labels), np.sum(classes == own.argmax(axis=-1))]
        self._counts[kind, slot] = self._counts.get((kind, slot), 0) + np.asarray(seen, np.int64)

    def result(self) -> Degraded:
        full = np.stack([self._counts["full", slot] for slot in range(self._k)])
        a_d = self._share("full")
        return Degraded(
            a_d=a_d,
            a_d_by_slot=tuple((full[:, 1] / full[:, 0]).tolist()),
            agreement=float(full[:, 2].sum() / full[:, 0].sum()),
            a_d_short=self._share("short"),
            a_d_r_lost=self._share("r_lost") if any(kind == "r_lost" for kind, _ in self._counts) else a_d,
        )

    def _share(self, kind: str) -> float:
        total = sum(counts for (of, _), counts in self._counts.items() if of == kind)
        return float(total[1] / total[0])  # type: ignore[index]
