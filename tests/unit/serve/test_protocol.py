"""Legal requests: what is read from document, headers and binary part, and what it costs."""

import base64
import json

import numpy as np
import pytest
from starlette.datastructures import Headers

from parm_ray.config.settings import LimitSettings
from parm_ray.models.images import decode_image
from parm_ray.serve.protocol import DEADLINE, JSON_LENGTH, REDUNDANCY, Limits, parse_infer_request
from tests.support.image_files import JPEGS, PNG
from tests.support.infer_requests import PICTURES, document, manifest, parse, tensor

LARGE = manifest((224, 224, 3))


def large_request():
    pixels = np.random.default_rng(0).integers(0, 256, (1, 224, 224, 3), np.uint8)
    item = {"name": "image", "datatype": "UINT8", "shape": [1, 224, 224, 3]}
    text = json.dumps({"inputs": [{**item, "parameters": {"binary_data_size": pixels.size}}]}).encode()
    return pixels, text + pixels.tobytes(), Headers({JSON_LENGTH: str(len(text))})


def test_flat_and_nested_json_give_the_same_queries():
    flat = parse(document([tensor(shape=[2, 2, 2], data=[1, 2.5, 3, 4, 5, 6, 7, 8])])).queries
    nested = parse(document([tensor(shape=[2, 2, 2], data=[[[1, 2.5], [3, 4]], [[5, 6], [7, 8]]])])).queries
    assert flat.dtype == np.float32
    assert flat.tolist() == nested.tolist() == [[[1, 2.5], [3, 4]], [[5, 6], [7, 8]]]


def test_defaults():
    request = parse(document())
    assert (request.id, request.deadline_ms, request.redundancy, request.binary) == (None, None, True, False)


def test_default_limits_are_those_of_the_settings():
    assert Limits() == Limits(**LimitSettings().model_dump())


def test_nulls_are_as_good_as_nothing():
    nothing = {"deadline_ms": None, "timeout": None, "redundancy": None, "binary_data_output": None}
    request = parse(document(id=None, parameters=nothing, outputs=None))
    assert (request.id, request.deadline_ms, request.redundancy, request.binary) == (None, None, True, False)
    assert parse(document([tensor(parameters=None)], parameters=None)).queries.shape == (1, 2, 2)
    assert parse(document([tensor(parameters={"binary_data_size": None})])).queries.shape == (1, 2, 2)


def test_what_is_not_understood_is_ignored():
    request = parse(document([tensor(parameters={"x": 1}, extra=2)], parameters={"x": [1]}, extra={}))
    assert request.queries.shape == (1, 2, 2)


@pytest.mark.parametrize("text", ["", "a", "ü", "\ud800", "x" * 1000, "1"])
def test_the_id_comes_through(text):
    assert parse(document(id=text)).id == text


@pytest.mark.parametrize(
    ("parameters", "headers", "deadline_ms"),
    [
        ({"deadline_ms": 5}, {}, 5),
        ({"deadline_ms": 0.5}, {}, 0.5),
        ({"deadline_ms": 0}, {}, 0),
        ({"deadline_ms": -3}, {}, -3),
        ({"deadline_ms": 3_600_000}, {}, 3_600_000),
        ({"deadline_ms": -(10**400)}, {}, -3_600_000),
        ({"timeout": 1500}, {}, 1.5),
        ({"timeout": 3_600_000_000}, {}, 3_600_000),
        ({"timeout": 0}, {}, None),
        ({"timeout": 0.0}, {DEADLINE: "7"}, 7),
        ({"timeout": -1}, {}, -0.001),
        ({}, {DEADLINE: "250"}, 250),
        ({}, {DEADLINE.upper(): "0.25"}, 0.25),
        ({}, {DEADLINE: "-1"}, -1),
        ({}, {DEADLINE: "-inf"}, -3_600_000),
        ({"deadline_ms": 5, "timeout": 9000}, {DEADLINE: "7"}, 5),
        ({"timeout": 9000}, {DEADLINE: "7"}, 9),
    ],
)
def test_the_deadline_is_the_parameter_s_then_triton_s_then_the_header_s(parameters, headers, deadline_ms):
    assert parse(document(parameters=parameters), headers).deadline_ms == deadline_ms


@pytest.mark.parametrize(
    ("parameters", "headers", "redundancy"),
    [
        ({"redundancy": False}, {}, False),
        ({"redundancy": True}, {REDUNDANCY: "off"}, True),
        ({"redundancy": False}, {REDUNDANCY: "on"}, False),
        ({}, {REDUNDANCY: "off"}, False),
        ({}, {REDUNDANCY.title(): "OFF"}, False),
        ({}, {REDUNDANCY: "on"}, True),
    ],
)
def test_redundancy_is_the_parameter_s_then_the_header_s(parameters, headers, redundancy):
    assert parse(document(parameters=parameters), headers).redundancy is redundancy


@pytest.mark.parametrize(
    ("all_outputs", "own", "binary"),
    [
        (None, None, False),
        (True, None, True),
        (False, None, False),
        (None, {"binary_data": True}, True),
        (True, {"binary_data": False}, False),
        (False, {"binary_data": True}, True),
        (True, {}, True),
        (True, {"classification": 0}, True),
    ],
)
def test_an_output_s_own_wish_goes_before_the_one_for_all(all_outputs, own, binary):
    parameters = {} if all_outputs is None else {"binary_data_output": all_outputs}
    outputs = [] if own is None else [{"name": "logits", "parameters": own}]
    assert parse(document(parameters=parameters, outputs=outputs)).binary is binary


def test_files_in_json_are_base64():
    files = [base64.b64encode(file).decode() for file in (PNG, JPEGS["baseline"])]
    for shape, data in (([2], files), ([2, 1], files), ([2, 1], [[file] for file in files])):
        request = parse(document([tensor(datatype="BYTES", shape=shape, data=data)]), model=PICTURES)
        assert request.queries.shape == (2, 4, 4, 3)
        np.testing.assert_array_equal(request.queries[0], decode_image(PNG, PICTURES.input, 1 << 20, 1 << 20))


def test_a_header_without_binary_data_changes_nothing():
    assert parse(document(), binary=b"").queries.tolist() == [[[1, 2], [3, 4]]]


def test_bytes_after_the_json_part_may_look_like_anything():
    part = json.dumps(document([tensor(data=..., parameters={"binary_data_size": 16})])).encode()
    for values in ([0, 0, 0, 0], [1, -1, 1e-30, 3e38]):
        array = np.array(values, np.float32).reshape(1, 2, 2)
        for padding in range(8):
            got = parse(part + b" " * padding, binary=array.tobytes()).queries
            np.testing.assert_array_equal(got, array)
            assert got.flags.aligned
            assert got.flags.c_contiguous


def test_a_large_binary_image_is_a_view_of_the_body():
    pixels, body, headers = large_request()
    request = parse_infer_request(body, headers, LARGE, Limits())
    np.testing.assert_array_equal(request.queries, pixels)
    assert np.shares_memory(request.queries, np.frombuffer(body, np.uint8))
    assert not request.queries.flags.writeable


def test_a_large_json_image_is_read_flat_or_nested():
    pixels, _, _ = large_request()
    for data in (pixels.reshape(-1).tolist(), pixels.tolist()):
        body = json.dumps(
            {"inputs": [{"name": "image", "datatype": "UINT8", "shape": [1, 224, 224, 3], "data": data}]}
        ).encode()
        np.testing.assert_array_equal(parse(body, model=LARGE).queries, pixels)
