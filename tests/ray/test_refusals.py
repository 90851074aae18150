"""Bad input and pressure through real HTTP: a 4xx or 503 that says what was expected, never a 500."""

import json

import numpy as np
import pytest

INFER = "/v2/models/digits/infer"
JSON_LENGTH = "Inference-Header-Content-Length"


def tensor(**changes):
    base = {"name": "image", "datatype": "UINT8", "shape": [1, 8, 8, 1], "data": [0] * 64}
    return {key: value for key, value in (base | changes).items() if value is not ...}


BAD = {
    "rank": (tensor(shape=[8, 8, 1]), "inputs[0].shape", "[n, 8, 8, 1]"),
    "shape": (tensor(shape=[1, 8, 9, 1]), "inputs[0].shape", "[n, 8, 8, 1]"),
    "no queries": (tensor(shape=[0, 8, 8, 1], data=[]), "inputs[0].shape", "1 to"),
    "dtype": (tensor(datatype="FP32"), "inputs[0].datatype", "UINT8"),
    "unknown dtype": (tensor(datatype="UINT9"), "inputs[0].datatype", "UINT8"),
    "name": (tensor(name="picture"), "inputs[0].name", "'image'"),
    "wrap-around": (tensor(data=[300] * 64), "inputs[0].data", "0 to 255"),
    "fraction": (tensor(data=[0.5] * 64), "inputs[0].data", "whole numbers"),
    "too few": (tensor(data=[0] * 63), "inputs[0].data", "64 values"),
    "ragged": (tensor(data=[[0, 1], [2]]), "inputs[0].data", "flat or nested"),
    "no data": (tensor(data=...), "inputs[0].data", "binary_data_size"),
    "missing header": (
        tensor(data=..., parameters={"binary_data_size": 64}),
        "inference-header-content-length",
        "header",
    ),
    "not an image": (
        tensor(datatype="BYTES", shape=[1], data=["aGVsbG8="]),
        "inputs[0].data[0]",
        "JPEG or PNG",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_tensor_is_a_400_that_names_field_and_expectation(server, case):
    bad, field, expectation = BAD[case]
    status, _, body = server.request(INFER, {"inputs": [bad]})
    message = json.loads(body)["error"]
    assert status == 400
    assert field in message
    assert expectation in message


@pytest.mark.parametrize(
    ("body", "headers", "status", "words"),
    [
        (b"{", {}, 400, "body"),
        (b"[]", {}, 400, "JSON object"),
        (b"\xff\xfe", {}, 400, "body"),
        (b"", {}, 400, "body"),
        (b"{}", {JSON_LENGTH: "99"}, 400, "inference-header-content-length"),
        (b"{}", {JSON_LENGTH: "x"}, 400, "inference-header-content-length"),
        (b"0" * (33 * 1024 * 1024), {}, 413, "at most"),
    ],
)
def test_a_bad_body_is_refused(server, body, headers, status, words):
    got, _, answer = server.request(INFER, body, headers)
    assert got == status
    assert words in json.loads(answer)["error"]


def test_a_truncated_binary_tensor_is_refused(server):
    text = json.dumps({"inputs": [tensor(data=..., parameters={"binary_data_size": 64})]}).encode()
    for cut in (1, 63):
        status, _, body = server.request(INFER, text + bytes(64 - cut), {JSON_LENGTH: str(len(text))})
        assert status == 400
        assert "binary_data_size" in json.loads(body)["error"]
    status, _, _ = server.request(INFER, text + bytes(64), {JSON_LENGTH: str(len(text))})
    assert status == 200


def test_unknown_models_versions_and_paths_are_404(server):
    for path in ("/v2/models/nobody/infer", "/v2/models/digits/versions/9/infer"):
        status, _, body = server.request(path, {"inputs": [tensor()]})
        assert status == 404
        assert "expected" in json.loads(body)["error"]
    for path, body, refused in (("/v2/nothing", None, 404), (INFER, None, 405)):
        status, _, answer = server.request(path, body)
        assert status == refused
        assert json.loads(answer).keys() == {"error"}


def test_a_deadline_that_has_passed_is_refused_at_once(server):
    for parameters in ({"deadline_ms": 0}, {"deadline_ms": -5}):
        status, _, document = server.infer(server.images[:1], **parameters)
        assert status == 504
        assert "already passed" in document["error"]
    status, _, document = server.infer(server.images[:1], deadline_ms="soon")
    assert status == 400
    assert "deadline_ms" in document["error"]
    status, _, _ = server.infer(server.images[:1], headers={"x-parm-deadline-ms": "-1"})
    assert status == 504


def test_the_handle_refuses_in_the_same_words(server):
    _, _, body = server.request("/caller?side=4", bytes(16))
    answer = json.loads(body)
    assert answer["invalid_input"]
    assert "[8, 8, 1]" in answer["error"]


def test_the_openapi_page_describes_infer(server):
    status, _, body = server.request("/openapi.json")
    assert status == 200
    infer = json.loads(body)["paths"]["/v2/models/{model}/infer"]["post"]
    assert "application/octet-stream" in infer["requestBody"]["content"]
    assert {"200", "400", "503", "504"} <= set(infer["responses"])
    assert server.request("/docs")[0] == 200


def test_after_all_that_nothing_is_left_open(server):
    server.infer(server.images[:4])
    stats = server.stats()
    assert np.isfinite(stats["rss_bytes"])
    assert stats["queries_open"] == stats["futures_open"] == 0
