"""What every code promises, over every code: `parm_ray.codes.base` as properties.

Outputs are small whole numbers in floats, so that sums of them are exact; only codes that solve a
system (weights other than 1) are held to a tolerance.
"""

from __future__ import annotations

import pickle
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from parm_ray.codes import list_codes
from parm_ray.core import InvalidInput, NotRecoverable
from tests.contracts.every_code import (
    FEW,
    OUTPUT_SHAPES,
    QUERY,
    QUERY_DTYPES,
    SPECS,
    Spec,
    answers,
    check,
    code_of,
    every_code,
    every_targeted,
    fractional,
    inverts,
    lengths_of,
    outputs_of,
    over,
    present,
    random_queries,
    slots_of,
    targeted,
)


def test_every_pair_is_under_test() -> None:
    assert {(row["encoder"], row["decoder"]) for row in list_codes()} == {spec[:2] for spec in SPECS}


@every_code
@FEW
@given(data=st.data())
def test_encodes_rows_by_themselves(spec: Spec, data: st.DataObject) -> None:
    code, slots = code_of(spec), data.draw(slots_of(spec[2]))
    parities = code.encode(slots, fill=7)
    given_slots = [slot for slot in slots if slot is not None]
    rows = max(map(len, given_slots))
    assert len(parities) == code.r
    for parity in parities:
        assert parity.shape == (rows, *QUERY)
        assert parity.flags.c_contiguous
        assert parity.dtype.kind == ("f" if fractional(spec) else given_slots[0].dtype.kind)
    for row in range(rows):
        alone = [None if slot is None or len(slot) <= row else slot[row : row + 1] for slot in slots]
        for parity, single in zip(parities, code.encode(alone, fill=7), strict=True):
            if spec[0] == "learned":  # a product of matrices rounds by their shape
                assert_allclose(parity[row : row + 1], single, rtol=1e-3, atol=1e-3 * np.abs(single).max())
            else:
                assert_array_equal(parity[row : row + 1], single)


@every_code
@FEW
@given(data=st.data())
def test_encoding_is_pure_and_takes_any_memory_layout(spec: Spec, data: st.DataObject) -> None:
    code, slots = code_of(spec), data.draw(slots_of(spec[2]))
    before = pickle.dumps(slots)
    awkward = [None if slot is None else _strided(slot) for slot in slots]
    for slot in (*slots, *awkward):
        if slot is not None:
            slot.flags.writeable = False
    first, second, third = code.encode(slots), code.encode(slots), code.encode(awkward)
    assert pickle.dumps(slots) == before
    for one, two, three in zip(first, second, third, strict=True):
        assert one.tobytes() == two.tobytes()
        assert_array_equal(one, three)
        assert three.flags.c_contiguous
        if spec[0] != "replicate":
            assert not any(np.shares_memory(one, slot) for slot in slots if slot is not None)


def _strided(batch: np.ndarray) -> np.ndarray:
    """The same numbers, neither contiguous nor forwards: every axis reversed in memory, in columns."""
    flipped = np.asfortranarray(np.repeat(batch[:, ::-1, ::-1, ::-1], 2, axis=2))
    return flipped[:, ::-1, ::-2, ::-1]


@every_code
@FEW
@given(data=st.data(), fill=st.sampled_from([None, 5, [1.0, 2.0, 3.0]]))
def test_an_absent_row_is_a_row_of_fill(spec: Spec, data: st.DataObject, fill: Any) -> None:
    code, slots = code_of(spec), data.draw(slots_of(spec[2]))
    longest = max((slot for slot in slots if slot is not None), key=len)
    row = np.broadcast_to(np.asarray(0 if fill is None else fill).astype(longest.dtype), QUERY)
    whole = [np.empty_like(longest) for _ in slots]
    for full, slot in zip(whole, slots, strict=True):
        full[...] = row
        if slot is not None:
            full[: len(slot)] = slot
    for parity, expected in zip(code.encode(slots, fill), code.encode(whole, fill), strict=True):
        if longest.dtype.kind == "f":
            assert_allclose(parity, expected, rtol=1e-3, atol=1e-3 if fractional(spec) else 0)
        else:
            assert_array_equal(parity, expected)


@over([spec for spec in SPECS if targeted(spec)])
@pytest.mark.parametrize("dtype", [d for d in QUERY_DTYPES if np.dtype(d).kind != "f"])
def test_integers_never_overflow(spec: Spec, dtype: str) -> None:
    code, info = code_of(spec), np.iinfo(dtype)
    weights = getattr(code.encoder, "weights", np.full((code.r, code.k), 1 / code.k))
    for extreme in (int(info.min), int(info.max)):
        slots = [np.full((1, *QUERY), extreme, dtype) for _ in range(code.k)]
        for parity, row in zip(code.encode(slots, fill=extreme), weights, strict=True):
            if fractional(spec):
                assert_allclose(parity, float(row.sum()) * extreme, rtol=1e-5, atol=1e-3)
                continue
            assert parity.dtype.kind == np.dtype(dtype).kind
            assert set(parity.ravel().tolist()) == {round(float(row.sum()) * extreme)}


@every_code
@FEW
@given(data=st.data(), dtype=st.sampled_from(["float32", "float64"]))
def test_decodes_exactly_what_it_calls_recoverable(spec: Spec, data: st.DataObject, dtype: str) -> None:
    code, lengths = code_of(spec), data.draw(lengths_of(spec[2]))
    outputs = data.draw(outputs_of(lengths, dtype, OUTPUT_SHAPES if targeted(spec) else ((4,),)))
    lost = data.draw(st.sets(st.sampled_from(sorted(present(lengths)))).map(frozenset))
    rows = data.draw(st.sets(st.sampled_from(range(code.r))).map(frozenset))
    own, parities = answers(code, outputs, lost, rows)
    possible = code.recoverable(present(lengths), present(lengths) - lost, rows)
    assert possible <= lost
    decoded = code.decode(own, parities, lengths, sorted(possible))
    assert set(decoded) == possible
    for slot, output in decoded.items():
        check(spec, output, np.asarray(outputs[slot]))
        check(spec, code.decode(own, parities, lengths, [slot])[slot], np.asarray(outputs[slot]))
        assert_array_equal(code.decode(own, parities, lengths, [slot])[slot], output)
    for slot in {-1, *range(code.k + 1)} - possible:
        for wanted in ([slot], [*possible, slot]):
            with pytest.raises(NotRecoverable, match=rf"^slots .*{slot}.*: recoverable now are"):
                code.decode(own, parities, lengths, wanted)


@every_code
@pytest.mark.parametrize("unequal", [0, 1])
def test_any_r_losses_are_recoverable_and_nothing_is_out_of_nothing(spec: Spec, unequal: int) -> None:
    code = code_of(spec)
    everyone, rows = frozenset(range(code.k)), frozenset(range(code.r))
    lengths = [1 + unequal * (i % 2) for i in range(code.k)]
    outputs: list[np.ndarray | None] = [np.arange(4 * n).reshape(n, 4).astype("float32") for n in lengths]
    for n in range(1, code.k + 1):
        for lost in map(frozenset, combinations(everyone, n)):
            assert code.recoverable(everyone, everyone - lost, frozenset()) == frozenset()
            possible = code.recoverable(everyone, everyone - lost, rows)
            assert possible == (lost if n <= code.r or spec[1] in ("slot", "copy") else frozenset())
            arrived = answers(code, outputs, lost, rows)
            for slot in lost:
                if slot in possible:
                    decoded = code.decode(*arrived, lengths, [slot])[slot]
                    check(spec, decoded, np.asarray(outputs[slot]))
                else:
                    with pytest.raises(NotRecoverable):
                        code.decode(*arrived, lengths, [slot])


@over(
    [spec for spec in SPECS if spec[0] != "concat" and spec[1] != "slot" and inverts(spec) and targeted(spec)]
)
def test_any_k_answers_of_k_plus_r_give_all_of_a_linear_model(spec: Spec) -> None:
    """Encode, run one linear model on queries and parities alike, decode: the paper's exact case."""
    code, random = code_of(spec), np.random.default_rng(3)
    lengths = [3 - i % 3 for i in range(code.k)]
    model = random.integers(-3, 4, (90, 6)).astype("float64")
    slots = [random.integers(0, 256, (n, *QUERY)).astype("uint8") for n in lengths]
    outputs = [slot.reshape(len(slot), -1) @ model for slot in slots]
    encoded = [parity.reshape(len(parity), -1) @ model for parity in code.encode(slots)]
    for kept in combinations(range(code.k + code.r), code.k):
        own = [output if i in kept else None for i, output in enumerate(outputs)]
        parities = [parity if code.k + i in kept else None for i, parity in enumerate(encoded)]
        lost = [i for i in range(code.k) if i not in kept]
        for slot, output in code.decode(own, parities, lengths, lost).items():
            # Parities of weights that are not whole are rounded to float32.
            assert_allclose(output, outputs[slot], atol=1e-2 if fractional(spec) else 1e-4)


@every_targeted
@FEW
@given(data=st.data())
def test_targets_have_the_promised_shape_and_hold_zero_for_nothing(spec: Spec, data: st.DataObject) -> None:
    code, lengths = code_of(spec), data.draw(lengths_of(spec[2]))
    outputs = data.draw(outputs_of(lengths))
    shape = next(output.shape[1:] for output in outputs if output is not None)
    whole = [np.zeros((max(lengths), *shape), "float32") for _ in outputs]
    for full, output in zip(whole, outputs, strict=True):
        if output is not None:
            full[: len(output)] = output
    for row in range(code.r):
        target = code.target(row, outputs)
        assert target.shape == (max(lengths), *code.parity_output_shape(shape))
        assert_array_equal(target, code.target(row, whole))


@every_targeted
def test_a_query_of_the_mean_vanishes_when_normalised(spec: Spec) -> None:
    code, mean, std = code_of(spec), np.array([60, 40, 20]), np.array([9.0, 5.0, 2.0])
    slots = [np.full((1, *QUERY), mean, "uint8"), *[None] * (code.k - 1)]
    for row, parity in enumerate(code.encode(slots, fill=mean)):
        parity_mean, parity_std = code.normalisation(row, mean, std)
        assert parity_mean.dtype == parity_std.dtype == np.float32
        assert_allclose((parity - parity_mean) / parity_std, 0, atol=1e-4)
    with pytest.raises(InvalidInput, match=r"^row: expected a whole number"):
        code.normalisation(code.r, mean, std)


@every_code
def test_survives_pickling(spec: Spec) -> None:
    code = pickle.loads(pickle.dumps(code_of(spec)))
    assert (code.name, code.k, code.r) == ("/".join(spec[:2]), *spec[2:])
    slots = [random_queries("uint8", (1, *QUERY), i) for i in range(code.k)]
    for one, two in zip(code.encode(slots), code_of(spec).encode(slots), strict=True):
        assert_array_equal(one, two)
