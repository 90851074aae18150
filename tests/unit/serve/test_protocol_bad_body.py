"""Bad bodies, headers, binary data and files, and requests above a limit: refused by name."""

import base64
import json

import numpy as np
import pytest

from parm_ray.core.errors import InvalidInput, PayloadTooLarge
from parm_ray.serve.protocol import DEADLINE, JSON_LENGTH, REDUNDANCY, Limits
from tests.support.image_files import PNG
from tests.support.infer_requests import NUMBERS, PICTURES, document, manifest, parse, refused, tensor

SHAPE, DATA, DATATYPE = "inputs[0].shape", "inputs[0].data", "inputs[0].datatype"
SIZE = "inputs[0].parameters.binary_data_size"
FOUR = np.arange(4, dtype=np.float32).tobytes()


BINARY = tensor(data=..., parameters={"binary_data_size": 16})
BODIES = {
    "empty": (b"", {}, "body", "a JSON object", JSON_LENGTH),
    "cut": (json.dumps(document()).encode()[:-1], {}, "body", "a JSON object", JSON_LENGTH),
    "a list": (b"[1]", {}, "body", "a JSON object", "[1]"),
    "null": (b"null", {}, "body", "a JSON object", "nothing"),
    "not UTF-8": (b'{"a": "\xff"}', {}, "body", "a JSON object", "utf-8"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), {}, "body", "a JSON object", "utf-8"),
    "deep": (b"[" * 100_000, {}, "body", "a JSON object", "recursion"),
    "deep objects": (b'{"a":' * 100_000, {}, "body", "a JSON object", "recursion"),
    "endless digits": (b'{"id": ' + b"9" * 10_000 + b"}", {}, "body", "a JSON object", "4300"),
    "a key twice": (b'{"id": "a", "id": "b"}', {}, "body", "each key once", "'id' twice"),
    "a later key twice": (b'{"id": "a", "x": 1, "x": 2}', {}, "body", "each key once", "'x' twice"),
    "a key twice inside": (
        b'{"inputs": [{"a": 1, "b": 2, "a": 3}]}',
        {},
        "body",
        "each key once",
        "'a' twice",
    ),
    "JSON then binary, no header": (
        json.dumps(document([BINARY])).encode() + FOUR,
        {},
        "body",
        f"needs the header {JSON_LENGTH}",
        "",
    ),
    "header too long": (b"{}", {JSON_LENGTH: "3"}, JSON_LENGTH, "at most the body's 2 bytes", "3"),
    "header too short": (b'{"a": 1}', {JSON_LENGTH: "4"}, "body", "a JSON object", ""),
    "header 0": (json.dumps(document()).encode(), {JSON_LENGTH: "0"}, "body", "a JSON object", ""),
    "compressed": (b"\x1f\x8b", {"Content-Encoding": "gzip"}, "content-encoding", "not compressed", "'gzip'"),
}


@pytest.mark.parametrize("case", BODIES)
def test_a_bad_body(case):
    body, headers, field, expectation, got = BODIES[case]
    error, message = refused(body, headers)
    assert error.field == field
    for words in (field, expectation, got):
        assert words in message


@pytest.mark.parametrize("value", ["", "-1", "+2", "2.0", "0x2", "1_0", "²", "9" * 13, "2 2", "x"])
def test_a_header_that_is_no_length(value):
    error, message = refused(b"{}", {JSON_LENGTH: value})
    assert error.field == JSON_LENGTH
    assert "a number of bytes" in message


def test_compression_of_nothing_is_no_compression():
    assert parse(document(), {"content-encoding": "Identity"}).queries.shape == (1, 2, 2)


@pytest.mark.parametrize(
    ("bad", "binary", "field", "expectation", "got"),
    [
        (BINARY, FOUR[:-1], SIZE, "15, the bytes after the JSON part", "16"),
        (BINARY, FOUR + b"\0", SIZE, "17, the bytes after the JSON part", "16"),
        (BINARY, b"", SIZE, "0, the bytes after the JSON part", "16"),
        (
            tensor(data=..., parameters={"binary_data_size": 12}),
            FOUR[:12],
            "inputs[0] (binary)",
            "16 bytes",
            "12",
        ),
        (
            tensor(data=..., parameters={"binary_data_size": 20}),
            bytes(20),
            "inputs[0] (binary)",
            "16 bytes",
            "20",
        ),
        (tensor(), FOUR, SIZE, "16, the bytes after the JSON part", "nothing"),
        (tensor(data=...), FOUR, SIZE, "16, the bytes after the JSON part", "nothing"),
        (
            tensor(parameters={"binary_data_size": 16}),
            FOUR,
            DATA,
            "nothing beside binary_data_size",
            "values",
        ),
        *(
            (tensor(data=..., parameters={"binary_data_size": size}), FOUR, SIZE, "a number of bytes", got)
            for size, got in (("16", "'16'"), (16.0, "16.0"), (-16, "-16"), (True, "true"), ([16], "[16]"))
        ),
    ],
)
def test_bad_binary_data(bad, binary, field, expectation, got):
    error, message = refused(document([bad]), binary=binary)
    assert error.field == field
    for words in (field, expectation, got):
        assert words in message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_are_refused_where_refused_and_pass_where_not(value):
    array = np.array([[[1, 2], [3, value]]], np.float32)
    for request in (
        {"request": document([tensor(data=array.reshape(-1).tolist())])},
        {"request": document([BINARY]), "binary": array.tobytes()},
    ):
        error, message = refused(**request)
        assert error.field in (DATA, "inputs[0] (binary)")
        assert "finite numbers" in message
        passed = parse(**request, limits=Limits(refuse_nan=False))
        np.testing.assert_array_equal(passed.queries, array)


def test_a_number_too_large_for_json_readers_is_infinite():
    body = json.dumps(document()).encode().replace(b"[1, 2, 3, 4]", b"[1e999, 2, 3, 4]")
    assert b"1e999" in body
    assert "finite numbers" in refused(body)[1]


@pytest.mark.parametrize("value", ["soon", "", "nan", "inf", "1_0", "1e9", "3600001", "0x10", "5 ms"])
def test_a_bad_deadline_header(value):
    error, message = refused(document(), {DEADLINE: value})
    assert error.field == DEADLINE
    assert "a number of milliseconds, at most 3600000" in message


@pytest.mark.parametrize("value", ["", "true", "no", "0", "offf"])
def test_a_bad_redundancy_header(value):
    error, message = refused(document(), {REDUNDANCY: value})
    assert error.field == REDUNDANCY
    assert "on or off" in message


@pytest.mark.parametrize(
    ("model", "bad", "limits", "field", "expectation"),
    [
        (NUMBERS, tensor(shape=[3, 2, 2], data=[0] * 12), Limits(max_queries=2), SHAPE, "1 to 2 queries"),
        (NUMBERS, tensor(), Limits(max_body_bytes=20), "body", "at most 20 bytes"),
        (
            PICTURES,
            tensor(datatype="BYTES", shape=[1], data=[base64.b64encode(PNG).decode()]),
            Limits(max_image_bytes=len(PNG) - 1),
            f"{DATA}[0]",
            f"at most {len(PNG) - 1} bytes",
        ),
        (
            PICTURES,
            tensor(datatype="BYTES", shape=[2], data=[base64.b64encode(PNG).decode()] * 2),
            Limits(max_image_pixels=24 * 32 * 2 - 1),
            f"{DATA}[1]",
            "at most 1535 pixels",
        ),
    ],
)
def test_what_is_too_large_is_too_large_and_not_malformed(model, bad, limits, field, expectation):
    error, message = refused(document([bad]), model=model, limits=limits, kind=PayloadTooLarge)
    assert error.field == field
    assert expectation in message


@pytest.mark.parametrize(
    ("bad", "binary", "field", "expectation"),
    [
        ({"shape": [1, 4, 4, 3], "data": ["AAAA"]}, None, SHAPE, "[n] or [n, 1]"),
        ({"shape": [1, 2], "data": ["AAAA"]}, None, SHAPE, "[n] or [n, 1]"),
        ({"shape": [0], "data": []}, None, SHAPE, "1 to 64"),
        ({"shape": [65], "data": []}, None, SHAPE, "1 to 64"),
        ({"shape": [2], "data": ["AAAA"]}, None, DATA, "2 base64 strings"),
        ({"shape": [1], "data": [5]}, None, f"{DATA}[0]", "base64"),
        ({"shape": [1], "data": ["****"]}, None, f"{DATA}[0]", "base64"),
        ({"shape": [1], "data": [""]}, None, f"{DATA}[0]", "a JPEG or PNG file"),
        ({"shape": [1], "data": ["AAAA"]}, None, f"{DATA}[0]", "a JPEG or PNG file"),
        ({"shape": [1]}, b"\x04\0\0\0abc", "inputs[0] (binary)", "4 bytes of element 0"),
        ({"shape": [1]}, b"\x04\0", "inputs[0] (binary)", "a 4-byte length"),
        ({"shape": [2]}, b"\0\0\0\0", "inputs[0] (binary)", "2 elements"),
        ({"shape": [1]}, b"\x03\0\0\0abc", "inputs[0] (binary)[0]", "a JPEG or PNG file"),
    ],
)
def test_bad_files(bad, binary, field, expectation):
    parameters = ... if binary is None else {"binary_data_size": len(binary)}
    bad = tensor(**{"datatype": "BYTES", "parameters": parameters, "data": ..., **bad})
    kind = PayloadTooLarge if bad["shape"] == [65] else InvalidInput
    error, message = refused(document([bad]), model=PICTURES, binary=binary, kind=kind)
    assert error.field == field
    assert expectation in message


def test_a_model_of_scalars_takes_rank_one_alone():
    scalars = manifest((), "float32", None)
    assert parse(document([tensor(shape=[3], data=[1, 2, 3])]), model=scalars).queries.shape == (3,)
    assert "[n]" in refused(document([tensor(shape=[3, 1], data=[1, 2, 3])]), model=scalars)[1]


def test_what_is_exactly_as_large_as_allowed_is_read():
    body = json.dumps(document([tensor(shape=[2, 2, 2], data=[0] * 8)])).encode()
    assert parse(body, limits=Limits(max_body_bytes=len(body), max_queries=2)).queries.shape == (2, 2, 2)
    refused(body, limits=Limits(max_body_bytes=len(body) - 1), kind=PayloadTooLarge)
    refused(body, limits=Limits(max_queries=1), kind=PayloadTooLarge)
