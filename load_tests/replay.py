"""The reconstructions of a run made again without a server: same groups, same parity model, same code.

A share measured over HTTP differs from the offline one by chance, because the groups are others. Here
they are the same, so that what is left is what the serving path does differently, and that is nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from load_tests.lost_answers import Answer
from load_tests.phase import LabelledImages
from parm_ray.core import Outcome
from parm_ray.models.loading import code_of, fill_of, load_predictor

_CHUNK = 250


@dataclass(frozen=True)
class Replayed:
    """answers: how many were made again. other_class: of those, how many have another top class than
    over HTTP. largest_difference: between any two numbers of the two, in the output's units."""

    answers: int
    other_class: int
    largest_difference: float


def replay(groups: list[list[Answer]], images: LabelledImages, parity: Path) -> Replayed:
    """Encode, predict and decode every full group (members by slot) that lost an answer.

    parity: the parity model's artefact. Subtraction takes the originals that came over HTTP. Raises
    ConfigError for an artefact that cannot be loaded, InvalidInput for groups that cannot be decoded.
    """
    manifest, predictor = load_predictor(parity)
    code, fill = code_of(manifest), fill_of(manifest)
    lossy = [g for g in groups if any(a.outcome is Outcome.RECONSTRUCTED for a in g)]
    answers, other, largest = 0, 0, 0.0
    for start in range(0, len(lossy), _CHUNK):
        chunk = lossy[start : start + _CHUNK]
        slots = [images.images[[g[i].image for g in chunk]] for i in range(code.k)]
        predicted = predictor.predict(code.encode(slots, fill)[0])
        for group, parity_output in zip(chunk, predicted, strict=True):
            own = [a.output[None] if a.outcome is Outcome.ORIGINAL else None for a in group]
            lost = [i for i, output in enumerate(own) if output is None]
            decoded = code.decode(own, [parity_output[None]], [1] * code.k, lost)
            for slot in lost:
                served, again = group[slot].output, decoded[slot][0]
                answers += 1
                other += int(served.argmax() != again.argmax())
                largest = max(largest, float(np.abs(served - again).max()))
    return Replayed(answers, other, largest)
