from __future__ import annotations

import json

import numpy as np
import pytest

from load_tests import oip


def response(outputs: list[dict], raw: bytes = b"") -> tuple[dict[str, str], bytes]:
    document = json.dumps({"outputs": outputs}).encode()
    return {oip.JSON_LENGTH: str(len(document))}, document + raw


def test_a_request_is_json_then_bytes() -> None:
    template = oip.RequestTemplate("image", (2, 3), np.dtype("float32"), "logits")
    query = np.arange(6, dtype=np.float32).reshape(2, 3)
    body = template.body(query)
    end = int(template.headers[oip.JSON_LENGTH])
    document = json.loads(body[:end])
    assert document["inputs"] == [
        {"name": "image", "shape": [1, 2, 3], "datatype": "FP32", "parameters": {"binary_data_size": 24}}
    ]
    assert document["outputs"] == [{"name": "logits", "parameters": {"binary_data": True}}]
    assert np.array_equal(np.frombuffer(body[end:], "<f4").reshape(2, 3), query)


def test_binary_outputs_are_found_by_name_and_offset() -> None:
    first, second = np.arange(3, dtype="<i8"), np.array([[0.5, 1.5]], "<f2")
    entries = [
        {"name": "a", "shape": [3], "datatype": "INT64", "parameters": {"binary_data_size": 24}},
        {"name": "b", "shape": [1, 2], "datatype": "FP16", "parameters": {"binary_data_size": 4}},
    ]
    headers, body = response(entries, first.tobytes() + second.tobytes())
    assert np.array_equal(oip.outputs(headers, body, "b"), second)
    assert np.array_equal(oip.outputs(headers, body, "a"), first)


def test_json_outputs_are_read_too() -> None:
    body = json.dumps({"outputs": [{"name": "a", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]})
    assert oip.outputs({}, body.encode(), "a").tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, b"not json"),
        ({oip.JSON_LENGTH: "many"}, b"{}"),
        ({}, b"{}"),
        ({}, b"[]"),
        ({}, b'{"outputs": []}'),
        ({}, b'{"outputs": [{"name": "a", "shape": [2], "datatype": "FP32", "data": [1]}]}'),
        ({}, b'{"outputs": [{"name": "a", "shape": [1], "datatype": "FP12", "data": [1]}]}'),
    ],
)
def test_anything_else_is_malformed(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(oip.Malformed):
        oip.outputs(headers, body, "a")


def test_error_messages() -> None:
    assert oip.error_message(b'{"error": "queue full"}') == "queue full"
    assert oip.error_message(b"<html>" + b"x" * 500).startswith("<html>")
    assert len(oip.error_message(b"x" * 500)) <= 200
    assert oip.error_message(b"[]") == "[]"
