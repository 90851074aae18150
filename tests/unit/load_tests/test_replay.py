"""Replay on the tiny parity models, when they are there: what was served is what comes out again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from load_tests.lost_answers import Answer
from load_tests.phase import LabelledImages
from load_tests.replay import replay
from parm_ray.core import Outcome

DIGITS = Path(__file__).parents[3] / "artifacts" / "digits"


@pytest.mark.parametrize("code", ["concat_slot_k2", "sum_subtract_k2"])
def test_reconstructions_are_made_again(code: str) -> None:
    if not (DIGITS / code / "manifest.json").is_file():
        pytest.skip("artifacts/digits is missing: python -m train.run --recipe tiny")
    from parm_ray.models.loading import code_of, load_predictor

    images = LabelledImages.load(DIGITS / "queries.npz")
    _, deployed = load_predictor(DIGITS / "deployed", threads=1)
    manifest, parity = load_predictor(DIGITS / code, threads=1)
    coding = code_of(manifest)
    groups = []
    for g in range(20):
        pair = [images.images[[2 * g]], images.images[[2 * g + 1]]]
        own = [deployed.predict(x) for x in pair]
        lost = g % 2
        left = [None if i == lost else y for i, y in enumerate(own)]
        served = coding.decode(left, [parity.predict(coding.encode(pair)[0])], [1, 1], [lost])[lost]
        groups.append(
            [
                Answer(2 * g + i, Outcome.RECONSTRUCTED, g, i, served[0])
                if i == lost
                else Answer(2 * g + i, Outcome.ORIGINAL, g, i, own[i][0])
                for i in range(2)
            ]
        )
    same = replay(groups, images, DIGITS / code)
    assert (same.answers, same.other_class) == (20, 0)
    assert same.largest_difference < 1e-3

    # Served from another group's images: it shows.
    a, b = groups[0][1], groups[1][0]
    groups[0][1] = Answer(b.image, a.outcome, a.group, a.slot, a.output)
    changed = replay(groups, images, DIGITS / code)
    assert changed.largest_difference > 0.1
    assert np.isfinite(changed.largest_difference)
