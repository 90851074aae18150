"""Codes by name: which pairs there are, what is refused, and how to add one's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parm_ray.codes import (
    LinearEncoder,
    SlotDecoder,
    list_codes,
    make_code,
    register_decoder,
    register_encoder,
    registry,
)
from parm_ray.core import InvalidInput

LEGAL = [
    ("sum", "subtract"), ("sum", "slot"), ("weighted", "subtract"), ("weighted", "slot"),
    ("concat", "slot"), ("concat", "subtract"), ("replicate", "copy"),
    ("berrut", "berrut"), ("berrut", "subtract"), ("learned", "learned"),
]  # fmt: skip


@pytest.fixture
def own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_encoders", dict(registry._encoders))
    monkeypatch.setattr(registry, "_decoders", dict(registry._decoders))
    return


def test_lists_the_pairs_that_fit() -> None:
    assert [(row["encoder"], row["decoder"]) for row in list_codes()] == LEGAL
    assert all(set(row) == {"encoder", "decoder", "k", "r", "what"} for row in list_codes())


@pytest.mark.parametrize(("encoder", "decoder"), [pair for pair in LEGAL if pair[0] != "learned"])
def test_names_k_and_r(encoder: str, decoder: str) -> None:
    code = make_code(encoder, decoder, 1)
    assert (code.name, code.k, code.r) == (f"{encoder}/{decoder}", 1, 1)
    assert (code.encoder.name, code.decoder.name) == (encoder, decoder)
    assert (code.decoder.k, code.decoder.r) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            ("xor", "subtract", 2),
            {},
            "encoder: expected one of sum, weighted, concat, replicate, berrut, learned, got 'xor'",
        ),
        (("sum", "copy", 2), {}, "decoder: expected one of subtract, slot with sum, got 'copy'"),
        (("sum", "xor", 2), {}, "decoder: expected one of subtract, slot with sum, got 'xor'"),
        (("replicate", "slot", 1), {}, "decoder: expected one of copy with replicate, got 'slot'"),
        (("replicate", "copy", 2), {}, "k: expected 1 for replicate, got 2"),
        (("sum", "subtract", 2, 2), {}, "r: expected 1 for sum (for more parities use weighted), got 2"),
        (
            ("concat", "subtract", 2, 2),
            {},
            "r: expected 1 for concat (with slot decoding it already recovers any number of losses), got 2",
        ),
        (("sum", "subtract", 0), {}, "k: expected a whole number, 1 to 1024, got 0"),
        (("sum", "subtract", "2"), {}, "k: expected a whole number, 1 to 1024, got '2'"),
        (("sum", "subtract", True), {}, "k: expected a whole number, 1 to 1024, got True"),
        (("concat", "slot", 65), {}, "k: expected a whole number, 1 to 64, got 65"),
        (("weighted", "slot", 2, 9), {}, "r: expected a whole number, 1 to 8, got 9"),
        (("concat", "slot", 2), {"layout": "NHWC"}, "layout: expected one of HWC, CHW, got 'NHWC'"),
        (("concat", "slot", 2), {"weights": 1}, "options: expected layout with concat, got weights"),
        (("berrut", "slot", 2), {}, "decoder: expected one of berrut, subtract with berrut, got 'slot'"),
        (("berrut", "berrut", 2, 4), {}, "r: expected 1 to 3 for berrut at k = 2, got 4"),
        (("berrut", "berrut", 65), {}, "k: expected a whole number, 1 to 64, got 65"),
        (("learned", "learned", 2, 2), {}, "r: expected 1 for learned, got 2"),
        (("sum", "slot", 2), {"layout": "HWC"}, "options: expected none with sum, got layout"),
    ],
)
def test_says_what_is_legal(arguments: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make_code(*arguments, **options)
    assert str(caught.value) == message


@pytest.mark.usefixtures("own_names")
def test_one_line_registers_an_encoder() -> None:
    register_encoder(
        "mean",
        lambda k, r: LinearEncoder("mean", k, r, np.full((r, k), 1 / k)),
        "mean of the queries", "1..64", "1", ("subtract", "slot"),
    )  # fmt: skip
    code = make_code("mean", "subtract", 2)
    ones = np.ones((1, 2))
    assert code.encode([ones, 3 * ones])[0].tolist() == [[2, 2]]
    assert code.decode([None, ones], [2 * ones], [1, 1], [0])[0].tolist() == [[3, 3]]
    assert {row["decoder"] for row in list_codes() if row["encoder"] == "mean"} == {"subtract", "slot"}


@pytest.mark.usefixtures("own_names")
def test_one_line_registers_a_decoder_beside_those_there_are() -> None:
    register_decoder("heads", lambda e: SlotDecoder(e.k, e.r), "another head per slot", ("sum", "concat"))
    assert make_code("sum", "heads", 2).parity_output_shape((10,)) == (2, 10)
    assert make_code("sum", "subtract", 2).parity_output_shape((10,)) == (10,)
    with pytest.raises(InvalidInput, match=r"^decoder: expected one of subtract, slot with weighted"):
        make_code("weighted", "heads", 2)


@pytest.mark.usefixtures("own_names")
def test_refuses_names_that_are_taken_or_unknown() -> None:
    with pytest.raises(InvalidInput, match=r"^name: expected a name other than sum"):
        register_encoder("sum", lambda k, r: LinearEncoder("sum", k, r), "", "", "", ())
    with pytest.raises(InvalidInput, match=r"^name: expected a name other than subtract"):
        register_decoder("slot", lambda e: SlotDecoder(e.k), "")
    with pytest.raises(InvalidInput, match=r"^encoders: expected names out of sum"):
        register_decoder("heads", lambda e: SlotDecoder(e.k), "", ("xor",))
    assert [(row["encoder"], row["decoder"]) for row in list_codes()] == LEGAL


def test_an_encoder_without_weights_is_subtracted_as_a_sum() -> None:
    code = make_code("concat", "subtract", 3)
    outputs = [np.full((1, 2), float(i)) for i in range(3)]
    assert code.target(0, outputs).tolist() == [[3, 3]]
