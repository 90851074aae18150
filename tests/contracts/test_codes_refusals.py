"""What every code refuses, over every code, and how it says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parm_ray.core import InvalidInput
from tests.contracts.every_code import (
    QUERY,
    SPECS,
    Spec,
    answers,
    code_of,
    every_code,
    over,
    targeted,
)

BATCH = np.zeros((2, *QUERY), "uint8")


@every_code
@pytest.mark.parametrize(
    ("field", "odd_one"),
    [
        ("slots[0]", BATCH[:0]),
        ("slots[0]", np.uint8(3)),
        ("slots[0]", np.zeros((), "uint8")),
        ("slots[0]", BATCH.tolist()),
        ("slots", BATCH.astype(bool)),
        ("slots", BATCH.astype(str)),
        ("slots", None),
    ],
)
def test_refuses_slots_that_are_no_batches(spec: Spec, field: str, odd_one: Any) -> None:
    code = code_of(spec)
    with pytest.raises(InvalidInput) as caught:
        code.encode([odd_one, *[None] * (code.k - 1)])
    assert caught.value.field == field
    with pytest.raises(InvalidInput, match=f"^slots: expected {code.k} entries, got {code.k + 1}"):
        code.encode([BATCH] * (code.k + 1))
    for unlike in (BATCH.astype("int16"), BATCH[..., :2]):
        if code.k > 1:
            with pytest.raises(InvalidInput, match=r"^slots\[1\]: expected uint8 queries of shape"):
                code.encode([BATCH, unlike, *[None] * (code.k - 2)])


@every_code
def test_refuses_answers_that_do_not_fit(spec: Spec) -> None:
    code = code_of(spec)
    lengths, outputs = [2] * code.k, [np.ones((2, 4), "float32")] * code.k
    own, parities = answers(code, list(outputs), frozenset({0}), frozenset(range(code.r)))
    short = [None if p is None else p[:1] for p in parities]
    for field, arguments in {
        "outputs": (own[1:], parities, lengths),
        "parities": (own, [*parities, None], lengths),
        "lengths": (own, parities, [*lengths, 0]),
        "parities[0]": (own, short, lengths),
        f"outputs[{code.k - 1}]": ([*own[:-1], np.ones((3, 4), "float32")], parities, lengths),
    }.items():
        with pytest.raises(InvalidInput) as caught:
            code.decode(*arguments, [0])
        assert caught.value.field == field
    refused = [(code.r, outputs, "row"), (0, [None] * code.k, "outputs"), (0, [*outputs, None], "outputs")]
    for row, targets, field in refused if targeted(spec) else [(0, outputs, "decoder")]:
        with pytest.raises(InvalidInput) as caught:
            code.target(row, targets)
        assert caught.value.field == field


@over([spec for spec in SPECS if spec[2] > 1])
@pytest.mark.parametrize("fill", ["grey", [1, 2], 256, -1, float("nan"), [[1, 2], [3]]])
def test_refuses_fills_that_are_no_query(spec: Spec, fill: Any) -> None:
    code = code_of(spec)
    with pytest.raises(InvalidInput) as caught:
        code.encode([BATCH, *[None] * (code.k - 1)], fill=fill)
    assert caught.value.field == "fill"
