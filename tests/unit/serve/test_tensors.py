"""Tensors from JSON and from bytes, and back: exact or refused."""

import base64
import json
import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

from parm_ray.core.errors import InvalidInput
from parm_ray.models.manifest import TensorSpec
from parm_ray.serve.tensors import (
    DTYPES,
    bytes_from_json,
    check_shape,
    datatype_of,
    from_binary,
    from_json,
    shown,
    split_bytes,
    to_json,
)

F = "inputs[0].data"
INTEGERS = [name for name, dtype in DTYPES.items() if dtype.kind in "iu"]
FLOATS = [name for name, dtype in DTYPES.items() if dtype.kind == "f"]


def read(data, name, shape=None):
    return from_json(data, DTYPES[name], (len(data),) if shape is None else shape, F)


def test_every_dtype_a_manifest_allows_has_the_protocol_s_name():
    for dtype in TensorSpec.model_fields["dtype"].annotation.__args__:
        assert datatype_of(np.dtype(dtype)) == np_to_triton_dtype(np.dtype(dtype))
        assert DTYPES[datatype_of(np.dtype(dtype))] == np.dtype(dtype)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_cover_their_range_exactly_and_never_wrap(name):
    info = np.iinfo(DTYPES[name])
    got = read([int(info.min), int(info.max)], name)
    assert got.dtype == DTYPES[name]
    assert got.tolist() == [info.min, info.max]
    for beyond in (int(info.min) - 1, int(info.max) + 1, 2**200, -(2**200)):
        with pytest.raises(InvalidInput) as refused:
            read([1, beyond], name)
        assert refused.value.field.startswith(F)
        assert f"{info.min} to {info.max}" in refused.value.expected
        assert refused.value.got.endswith(" at 1")
        assert len(str(refused.value)) < 200


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("value", [0.5, 1.0, -0.0, math.nan, math.inf, 1e300])
def test_no_float_becomes_an_integer(name, value):
    with pytest.raises(InvalidInput, match=r"whole numbers for \w+, got .* at 1$"):
        read([1, value], name)


@pytest.mark.parametrize("name", INTEGERS + FLOATS)
@pytest.mark.parametrize("value", [True, False, "1", "", None, {}, {"a": 1}])
@pytest.mark.parametrize("at", [0, 1, 3])
def test_only_numbers_are_numbers(name, value, at):
    data = [1, 2, 3, 4]
    data[at] = value
    with pytest.raises(InvalidInput, match=f"numbers for {name}"):
        read(data, name)
    with pytest.raises(InvalidInput, match=f"numbers for {name}"):
        read([data[:2], data[2:]], name, (2, 2))


@pytest.mark.parametrize(("name", "largest"), [("FP16", 65504.0), ("FP32", 3.4028234663852886e38)])
def test_floats_round_but_do_not_overflow(name, largest):
    assert read([largest, -largest, 0.1, 3], name).tolist()[:2] == [largest, -largest]
    for data in ([largest * 2], [math.inf, largest * 2], [1, -largest * 2]):
        with pytest.raises(InvalidInput, match=f"{name} can hold"):
            read(data, name)


def test_integers_too_large_for_any_float_are_refused():
    for name in FLOATS:
        with pytest.raises(InvalidInput, match=f"{name} can hold"):
            read([1, 10**400], name)


@pytest.mark.parametrize("name", FLOATS)
def test_nan_and_infinities_pass_here(name):
    got = read([math.nan, math.inf, -math.inf], name)
    assert np.isnan(got[0])
    assert got[1:].tolist() == [math.inf, -math.inf]


@settings(max_examples=80, deadline=None)
@given(
    hnp.arrays(
        st.sampled_from(sorted(DTYPES.values(), key=str)),
        hnp.array_shapes(max_dims=4, max_side=4),
        elements={"allow_nan": False, "allow_infinity": False},
    )
)
def test_nested_and_flat_json_and_bytes_all_give_the_array(array):
    for data in (array.tolist(), array.reshape(-1).tolist(), to_json(array)):
        got = from_json(json.loads(json.dumps(data)), array.dtype, array.shape, F)
        assert got.dtype == array.dtype
        assert got.flags.c_contiguous
        np.testing.assert_array_equal(got, array)
    np.testing.assert_array_equal(from_binary(array.tobytes(), array.dtype, array.shape, F), array)


@pytest.mark.parametrize(
    "data",
    [
        [],
        [1] * 5,
        [1] * 7,
        [[1, 2, 3]],
        [[1, 2, 3], [4, 5]],
        [[1, 2], [3, 4], [5, 6]],
        [[1, 2, 3], 4],
        [1, [2, 3, 4]],
        [[1, 2, 3], [4, 5, [6]]],
        [[[1], [2], [3]], [[4], [5], [6]]],
        [[[1, 2, 3], [4, 5, 6]]],
        [[], []],
        5,
        "123456",
        None,
        {"0": 1},
    ],
)
def test_lists_that_are_neither_flat_nor_nested_like_the_shape_are_refused(data):
    with pytest.raises(InvalidInput, match="flat or nested"):
        from_json(data, np.dtype("uint8"), (2, 3), F)


def test_a_long_string_among_numbers_is_refused():
    # numpy, asked for an array of this, makes every element as wide as the string: 11 GiB.
    data = ["x" * 1_000_000] + [1] * 2999
    for shape in ((3000,), (4,)):
        with pytest.raises(InvalidInput) as refused:
            from_json(data, np.dtype("float32"), shape, F)
        assert len(str(refused.value)) < 300


def test_data_nested_thousands_deep_is_refused():
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(InvalidInput):
        from_json(deep, np.dtype("uint8"), (1, 1), F)
    assert len(shown(deep)) < 100


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_binary_data_is_viewed_not_copied_unless_it_is_misaligned(dtype):
    dtype = np.dtype(dtype)
    values = np.arange(6).astype(dtype)
    for offset in range(8):
        body = bytearray(64)
        start = offset + (-np.frombuffer(body, np.uint8).ctypes.data) % 8
        body[start : start + values.nbytes] = values.tobytes()
        view = memoryview(bytes(body))
        start_address = np.frombuffer(view, np.uint8).ctypes.data + start
        got = from_binary(view[start : start + values.nbytes], dtype, (2, 3), F)
        np.testing.assert_array_equal(got.reshape(-1), values)
        assert got.flags.aligned
        assert got.flags.c_contiguous
        assert not got.flags.writeable
        assert np.shares_memory(got, np.frombuffer(view, np.uint8)) == (start_address % dtype.alignment == 0)


def test_binary_data_must_have_the_shape_s_length():
    for length in (0, 1, 23, 25, 48):
        with pytest.raises(InvalidInput, match="24 bytes for FP32") as refused:
            from_binary(bytes(length), np.dtype("float32"), (2, 3), F)
        assert refused.value.got == f"{length} bytes"


@pytest.mark.parametrize(
    "shape",
    [None, [], {}, "3", 3, [True], [1, False], [-1], [1, 2.0], ["1"], [None], [[1]], [2**31], [10**400]],
)
def test_shapes_are_lists_of_sizes(shape):
    with pytest.raises(InvalidInput) as refused:
        check_shape(shape, "inputs[0].shape")
    assert refused.value.field == "inputs[0].shape"
    assert len(str(refused.value)) < 200


def test_shapes_may_have_a_zero():
    assert check_shape([0, 3], "s") == (0, 3)


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=8))
def test_bytes_tensors_are_what_triton_s_client_writes(elements):
    written = serialize_byte_tensor(np.array(elements, np.object_)).item()
    assert written == b"".join(struct.pack("<I", len(e)) + e for e in elements)
    assert split_bytes(memoryview(written), len(elements), F) == elements
    for count in (len(elements) - 1, len(elements) + 1):
        with pytest.raises(InvalidInput):
            split_bytes(written, count, F)
    for cut in range(len(written)):
        with pytest.raises(InvalidInput):
            split_bytes(written[:cut], len(elements), F)


def test_an_element_that_claims_gigabytes_is_refused():
    with pytest.raises(InvalidInput, match="4294967295"):
        split_bytes(b"\xff\xff\xff\xff1234", 1, F)


def test_files_in_json_are_base64_flat_or_one_per_row():
    files = [b"\xff\xd8\x00", b"", b"abc"]
    text = [base64.b64encode(f).decode() for f in files]
    assert bytes_from_json(text, 3, F) == files
    assert bytes_from_json([[t] for t in text], 3, F) == files


@pytest.mark.parametrize(
    "item",
    ["a", "abc", "ab cd===", "ab\ncd", "é" * 4, "\ud800aaa", "-_-_", 1, None, True, [], ["a", "b"], {}],
)
def test_what_is_not_base64_is_refused_by_its_place(item):
    with pytest.raises(InvalidInput, match="base64") as refused:
        bytes_from_json(["YWJj", item], 2, F)
    assert refused.value.field == f"{F}[1]"


@pytest.mark.parametrize("data", [None, "YWJj", [], ["YWJj"], ["YWJj"] * 3, {"0": "YWJj"}])
def test_the_number_of_files_must_match(data):
    with pytest.raises(InvalidInput, match="2 base64 strings"):
        bytes_from_json(data, 2, F)


def test_json_output_is_exact_flat_and_has_null_for_what_json_lacks():
    array = np.array([[0.1, np.nan], [np.inf, -np.inf]], np.float32)
    values = to_json(array)
    assert values == [float(np.float32(0.1)), None, None, None]
    json.dumps(values, allow_nan=False)
    assert np.float32(json.loads(json.dumps(values))[0]) == array[0, 0]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda s: st.lists(s) | st.dictionaries(st.text(), s),
    )
)
def test_what_a_message_shows_is_short_and_can_be_sent(value):
    text = shown(value)
    assert len(text) <= 2000
    text.encode()


def test_what_a_message_shows_of_something_large_is_short():
    for value in (
        ["x" * 10_000_000] * 1000,
        list(range(3_000_000)),
        {str(i): i for i in range(300_000)},
        10**4000,
    ):
        assert len(shown(value)) < 600
