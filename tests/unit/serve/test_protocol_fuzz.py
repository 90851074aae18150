"""Whatever comes in, the only errors are the two that become a 400 and a 413."""

import contextlib
import json
import resource

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers

from parm_ray.core.errors import InvalidInput
from parm_ray.serve.http_errors import status_of
from parm_ray.serve.protocol import DEADLINE, JSON_LENGTH, REDUNDANCY, Limits, parse_infer_request
from parm_ray.serve.responses import error_body
from tests.support.image_files import JPEGS, PNG
from tests.support.infer_requests import NUMBERS, PICTURES, document, manifest, parse, tensor

MODELS = [NUMBERS, PICTURES, manifest((3,), "int64", None), manifest((2,), "float16", None)]
SMALL = Limits(max_body_bytes=1 << 20, max_queries=3, max_image_bytes=1 << 16, max_image_pixels=1 << 16)

odd_numbers = st.sampled_from(
    [0, -1, 1, 2, 3, 2**31, 2**62, 2**63, -(2**63) - 1, 2**64, 10**308, 10**400, -(10**4000)]
) | st.sampled_from([0.5, -0.0, 1e38, 1e308, float("inf"), float("-inf"), float("nan")])
scalars = st.none() | st.booleans() | odd_numbers | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
header_values = st.text(st.characters(max_codepoint=255), max_size=12) | st.integers(-9, 999).map(str)
headers = st.dictionaries(
    st.sampled_from([JSON_LENGTH, DEADLINE, REDUNDANCY, "content-encoding", "content-type"]), header_values
)


def survives(body, headers, model, limits=SMALL):
    """Parse; an error must become an answer that can be sent."""
    request, refusal = None, None
    try:
        request = parse_infer_request(body, Headers(headers), model, limits)
    except InvalidInput as error:
        refusal = error
    if request is None:
        assert status_of(refusal)[0] in (400, 413)
        assert len(str(refusal)) < 500
        json.dumps(error_body(str(refusal)), ensure_ascii=False).encode()
        return None
    assert request.queries.shape[1:] == model.input.shape
    assert 1 <= len(request.queries) <= limits.max_queries
    assert request.queries.dtype == model.input.dtype
    assert request.queries.flags.c_contiguous
    assert np.isfinite(request.queries).all()
    assert request.deadline_ms is None or abs(request.deadline_ms) <= 3_600_000
    assert isinstance(request.redundancy, bool)
    assert isinstance(request.binary, bool)
    return request


@settings(max_examples=150, deadline=None)
@given(body=st.binary(max_size=200), headers=headers, model=st.sampled_from(MODELS))
def test_arbitrary_bytes(body, headers, model):
    assert survives(body, headers, model) is None


@settings(max_examples=200, deadline=None)
@given(body=values, headers=headers, model=st.sampled_from(MODELS))
def test_arbitrary_json(body, headers, model):
    assert survives(json.dumps(body).encode(), headers, model) is None


@settings(max_examples=250, deadline=None)
@given(data=st.data(), headers=headers, model=st.sampled_from(MODELS))
def test_documents_that_are_almost_right(data, headers, model):
    def near(right):
        return st.just(right) | st.just(right) | values

    shape = [2, *model.input.shape]
    own = st.fixed_dictionaries(
        {
            "name": near("image"),
            "shape": near(shape) | near([2]) | st.lists(odd_numbers, max_size=5),
            "datatype": near(
                {"float32": "FP32", "uint8": "UINT8", "int64": "INT64", "float16": "FP16"}[model.input.dtype]
            )
            | st.just("BYTES"),
        },
        optional={
            "data": near([1] * int(np.prod(shape)))
            | near(np.ones(shape, int).tolist())
            | st.lists(scalars, max_size=9),
            "parameters": st.dictionaries(
                st.sampled_from(["binary_data_size", "shared_memory_region"]), near(48), max_size=1
            )
            | values,
        },
    )
    names = ["deadline_ms", "timeout", "redundancy", "binary_data_output", "x"]
    whole = st.fixed_dictionaries(
        {"inputs": st.lists(own, min_size=1, max_size=1) | values},
        optional={
            "id": near("a"),
            "parameters": st.dictionaries(st.sampled_from(names), values, max_size=3) | values,
            "outputs": near([]) | near([{"name": "logits"}]) | values,
        },
    )
    survives(json.dumps(data.draw(whole)).encode() + data.draw(st.binary(max_size=20)), headers, model)
    survives(json.dumps(data.draw(whole)).encode(), headers, model)


@settings(max_examples=300, deadline=None)
@given(
    edits=st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=5), st.integers(0, 5)), max_size=4),
    binary=st.binary(max_size=20) | st.just(bytes(16)),
    shift=st.integers(-3, 3),
    model=st.sampled_from(MODELS),
)
def test_mutated_requests(edits, binary, shift, model):
    item = tensor(data=..., parameters={"binary_data_size": len(binary)})
    text = json.dumps(document([item], id="a", parameters={"deadline_ms": 5})).encode()
    body = bytearray(text + binary)
    for at, new, gone in edits:
        at %= len(body)
        body[at : at + gone] = new
    survives(bytes(body), {JSON_LENGTH: str(max(0, len(text) + shift))}, model)
    survives(bytes(body), {}, model)


@settings(max_examples=150, deadline=None)
@given(
    file=st.sampled_from([*JPEGS.values(), PNG]),
    edits=st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=5)), max_size=4),
    cut=st.integers(0, 4000),
    claimed=st.none() | st.integers(0, 2**32 - 1),
)
def test_mutated_files(file, edits, cut, claimed):
    data = bytearray(file)
    for at, new in edits:
        at %= len(data)
        data[at : at + len(new)] = new
    data = bytes(data[:cut])
    raw = (len(data) if claimed is None else claimed).to_bytes(4, "little") + data
    item = tensor(datatype="BYTES", shape=[1], data=..., parameters={"binary_data_size": len(raw)})
    text = json.dumps(document([item])).encode()
    survives(text + raw, {JSON_LENGTH: str(len(text))}, PICTURES)


@pytest.mark.parametrize("depth", [1, 2, 3, 32, 64, 65, 400, *range(900, 1000, 3), 5000])
@pytest.mark.parametrize("key", ["inputs", "data", "shape", "id", "outputs", "parameters", "name"])
def test_any_depth_of_nesting_anywhere(depth, key):
    deep = b"[" * depth + b"]" * depth
    for nested in (deep, b'{"a":' * depth + b"1" + b"}" * depth):
        body = json.dumps(document([tensor(**{key: "HERE"})], **{key: "HERE"} if key != "inputs" else {}))
        survives(body.encode().replace(b'"HERE"', nested), {}, NUMBERS)
        survives(b'{"inputs": [%s]}' % nested, {}, NUMBERS)


@pytest.mark.parametrize(
    "request_body",
    [
        document([tensor(shape=[2**31 - 1, 2, 2], data=[1])]),
        document([tensor(shape=[2**31 - 1] * 5, data=[1])]),
        document([tensor(shape=[1, 2, 2], data=["x" * 900_000, *[1] * 3])]),
        document([tensor(shape=[1, 2, 2], data=["x" * 400_000, *[""] * 90_000])]),
        document([tensor(shape=[1, 2, 2], data=[["x" * 400_000], *[[1]] * 90_000])]),
        document([tensor(shape=[1] * 200_000)]),
        document([tensor(shape=[2**30] * 60_000)]),
        document([tensor()] * 5000),
        document(id=[[1] * 1000] * 200),
    ],
    ids=["queries", "product", "string", "strings", "nested", "ones", "sizes", "tensors", "id"],
)
def test_no_claim_makes_the_server_allocate(request_body):
    body = json.dumps(request_body).encode()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with contextlib.suppress(InvalidInput):
        parse(body)
        raise AssertionError("was not refused")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024
