"""Accuracy with and without losses, through the numpy code and the predictors that are served.

A_a, accuracy when available: the deployed model's own. A_d, degraded: of answers reconstructed by
the decoder. A_o = (1 - f) A_a + f A_d when a share f of the answers is late (ParM, SOSP'19). "Accuracy"
is the mean of the task's score, the share of right classes or the overlap of boxes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.codes import Code, Decoder, LinearDecoder, LinearEncoder
from parm_ray.models.predictor import Predictor
from train.calibration import GatePoint, calibration_error, confidence, gate
from train.task import CLASSES, Task

Array = NDArray[np.generic]

LATE_SHARES = (0.01, 0.05, 0.10)
TOP = 5
Control = Literal["symmetric"]
_CHUNK = 250


@dataclass(frozen=True)
class Scores:
    """How good some answers are, shares in 0..1.

    mean: of the task's score; top5: the label is among the five largest, None with five classes or
    fewer and for other tasks; ece, gate: see `calibration.py`, None for tasks other than classes.
    """

    mean: float
    top5: float | None
    ece: float | None
    gate: list[GatePoint] | None


@dataclass(frozen=True)
class Degraded:
    """What a code is worth when `lost` slots of a group are lost and parities `answered` have come.

    Every choice of `lost` slots counts alike. a_d: mean over slots of a_d_by_slot. agreement: the
    score with the deployed model's own answer for a label. a_d_short: A_d in groups whose last 1 to
    k-1 slots stayed empty, for one loss only. control: "symmetric" for the code that cannot work.
    """

    lost: int
    answered: tuple[int, ...]
    control: Control | None
    scores: Scores
    a_d_by_slot: tuple[float, ...]
    agreement: float
    a_d_short: float | None

    @property
    def a_d(self) -> float:
        """The mean score of the reconstructions."""
        return self.scores.mean


def overall(a_a: float, a_d: float, late: float) -> float:
    """Return A_o = (1 - late) A_a + late A_d."""
    return (1 - late) * a_a + late * a_d


def predict_all(predictor: Predictor, inputs: Array) -> Array:
    """Answer `[n, *input]` in pieces; returns `[n, *output]`."""
    return np.concatenate(
        [predictor.predict(inputs[at : at + _CHUNK]) for at in range(0, len(inputs), _CHUNK)]
    )


def score(task: Task, outputs: Array, labels: Array, probabilities: bool = False) -> Scores:
    """Score answers `[n, *output]` against labels `[n, ...]`."""
    seen = _Answers(task, probabilities)
    seen.add(outputs, labels)
    return seen.scores()


def evaluate(
    code: Code,
    parities: Sequence[Predictor],
    images: Array,
    labels: Array,
    outputs: Array,
    fill: ArrayLike | None,
    *,
    rounds: int,
    task: Task = CLASSES,
    probabilities: bool = False,
    seed: int = 0,
) -> list[Degraded]:
    """Simulate every loss in random groups of the test set; return one result per kind of loss.

    images: raw `[n, *shape]`; outputs: the deployed model's answers, `[n, *output]`. probabilities:
    they are no logits, which confidence has to know. Each round shuffles the set into n // k groups
    and leaves the rest out. Each parity model answers a group once for all its losses, and once more
    for each number of slots that may stay empty.
    """
    random = np.random.default_rng(seed)
    tallies = [_Tally(scenario, code.k, task, probabilities) for scenario in _scenarios(code)]
    for _ in range(rounds):
        order = random.permutation(len(labels))[: len(labels) // code.k * code.k]
        members = list(order.reshape(code.k, -1))
        for filled in range(code.k, 0, -1):
            empty = [None] * (code.k - filled)
            own = [outputs[m] for m in members[:filled]]
            encoded = code.encode([*(images[m] for m in members[:filled]), *empty], fill)
            answers = [predict_all(p, x) for p, x in zip(parities, encoded, strict=True)]
            for tally in tallies:
                tally.lose(own, answers, [labels[m] for m in members[:filled]])
    return [tally.result() for tally in tallies]


@dataclass(frozen=True)
class _Scenario:
    """A number of losses, the parity rows that have answered, and what decodes them."""

    lost: int
    answered: tuple[int, ...]
    decoder: Decoder
    control: Control | None = None

    def parities(self, answers: Sequence[Array]) -> list[Array | None]:
        """Return the answers as this decoder finds them. The control hears row 0 from both."""
        if self.control:
            return [answers[0]] * self.decoder.r
        return [answer if row in self.answered else None for row, answer in enumerate(answers)]


def _scenarios(code: Code) -> Iterator[_Scenario]:
    """Yield what the code recovers of one, two, r and all k losses, from each parity and from all."""
    everyone = frozenset(range(code.k))
    rows = tuple(range(code.r))
    for lost in sorted({1, 2, code.r, code.k}):
        gone = frozenset(range(lost))
        for answered in [*((row,) for row in rows if code.r > 1), rows]:
            if code.recoverable(everyone, everyone - gone, frozenset(answered)) >= gone:
                yield _Scenario(lost, answered, code.decoder)
    if code.r == 2 and isinstance(code.encoder, LinearEncoder) and (code.encoder.weights[0] == 1).all():
        # The same sum for both rows (the paper's sketch of r > 1): two equal equations for two lost
        # answers. Least squares of least norm gives both of them the same half.
        same = LinearDecoder(np.ones((2, code.k)))
        yield _Scenario(2, rows, same, control="symmetric")


class _Tally:
    """Collects the reconstructions of one scenario, by slot."""

    def __init__(self, scenario: _Scenario, k: int, task: Task, probabilities: bool) -> None:
        self._scenario, self._task, self._k = scenario, task, k
        self._full, self._short = _Answers(task, probabilities), _Answers(task, probabilities)
        self._by_slot: list[list[NDArray[np.float64]]] = [[] for _ in range(k)]
        self._agree: list[NDArray[np.float64]] = []

    def lose(self, own: Sequence[Array], answers: Sequence[Array], labels: Sequence[Array]) -> None:
        """Lose every choice of slots of groups whose first len(own) slots are filled."""
        lost, full = self._scenario.lost, len(own) == self._k
        if not full and (lost > 1 or self._scenario.control):
            return
        empty = [None] * (self._k - len(own))
        lengths = [len(output) for output in own] + [0] * len(empty)
        parities = self._scenario.parities(answers)
        for together in combinations(range(len(own)), lost):
            left = [None if slot in together else output for slot, output in enumerate(own)] + empty
            rebuilt = self._scenario.decoder.decode(left, parities, lengths, list(together))
            for slot, answer in rebuilt.items():
                if full:
                    self._by_slot[slot].append(self._full.add(answer, labels[slot]))
                    self._agree.append(self._task.score(answer, self._task.read(own[slot])))
                else:
                    self._short.add(answer, labels[slot])

    def result(self) -> Degraded:
        return Degraded(
            lost=self._scenario.lost,
            answered=self._scenario.answered,
            control=self._scenario.control,
            scores=self._full.scores(),
            a_d_by_slot=tuple(float(np.concatenate(scores).mean()) for scores in self._by_slot),
            agreement=float(np.concatenate(self._agree).mean()),
            a_d_short=self._short.mean() if self._short else None,
        )


@dataclass
class _Answers:
    """Scores of answers as they come, with their confidence where there is such a thing."""

    task: Task
    probabilities: bool
    _scores: list[NDArray[np.float64]] = field(default_factory=list)
    _confident: list[NDArray[np.float64]] = field(default_factory=list)
    _top: list[NDArray[np.bool_]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self._scores)

    def add(self, outputs: Array, labels: Array) -> NDArray[np.float64]:
        """Take `[n, *output]` in; return their scores `[n]`."""
        scores = self.task.score(outputs, labels)
        self._scores.append(scores)
        if self.task.of_classes:
            self._confident.append(confidence(outputs, self.probabilities))
            if outputs.shape[-1] > TOP:
                best = np.argpartition(outputs, -TOP, axis=-1)[:, -TOP:]
                self._top.append((best == labels[:, None]).any(axis=-1))
        return scores

    def mean(self) -> float:
        return float(np.concatenate(self._scores).mean())

    def scores(self) -> Scores:
        scores = np.concatenate(self._scores)
        confident = np.concatenate(self._confident) if self._confident else None
        return Scores(
            mean=float(scores.mean()),
            top5=float(np.concatenate(self._top).mean()) if self._top else None,
            ece=None if confident is None else calibration_error(confident, scores),
            gate=None if confident is None else gate(confident, scores),
        )
