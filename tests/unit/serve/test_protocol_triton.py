"""Round trips with NVIDIA's own client: what it writes is understood, what is answered it reads."""

import json

import numpy as np
import pytest
import tritonclient.http as triton
from starlette.datastructures import Headers

from parm_ray.core import Outcome
from parm_ray.models.images import decode_image
from parm_ray.serve.prediction import Prediction
from parm_ray.serve.protocol import JSON_LENGTH, Limits, parse_infer_request
from parm_ray.serve.responses import build_infer_response
from parm_ray.serve.tensors import NAMES
from tests.support.image_files import JPEGS, PNG
from tests.support.infer_requests import NUMBERS, PICTURES, manifest

DTYPES = ["uint8", "uint16", "uint32", "int32", "int64", "float16", "float32", "float64"]
Client = triton.InferenceServerClient


def written(array, binary=True, datatype=None, **options):
    """Body and headers as the client sends them."""
    item = triton.InferInput("image", list(array.shape), datatype or NAMES[array.dtype])
    item.set_data_from_numpy(array, binary_data=binary)
    body, json_size = Client.generate_request_body([item], **options)
    return body, Headers({} if json_size is None else {JSON_LENGTH.title(): str(json_size)})


def parsed(model, array, binary=True, datatype=None, **options):
    return parse_infer_request(*written(array, binary, datatype, **options), model, Limits())


def answer(request, outputs, model=NUMBERS, outcome=Outcome.ORIGINAL):
    predictions = [Prediction(output, outcome, 3, i) for i, output in enumerate(outputs)]
    body, headers = build_infer_response(request, "m", model, predictions)
    length = headers.get(JSON_LENGTH)
    return Client.parse_response_body(body, header_length=None if length is None else int(length)), headers


def values(dtype, *shape):
    count = int(np.prod(shape))
    return (np.arange(count) % 100).astype(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("binary", [True, False])
def test_tensors_arrive_as_they_were(dtype, binary):
    array = values(dtype, 3, 2, 5)
    request = parsed(manifest((2, 5), dtype, None), array, binary)
    assert request.queries.dtype == dtype
    assert request.queries.flags.c_contiguous
    assert request.queries.flags.aligned
    np.testing.assert_array_equal(request.queries, array)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("extreme", [np.iinfo(np.int64).min, np.iinfo(np.int64).max])
def test_the_largest_integers_survive(binary, extreme):
    array = np.full((1, 2), extreme, np.int64)
    assert parsed(manifest((2,), "int64", None), array, binary).queries.tolist() == array.tolist()


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_files_arrive_as_bytes_of_any_content(shape):
    files = [JPEGS["baseline"], PNG, JPEGS["progressive"]]
    request = parsed(PICTURES, np.array(files, np.object_).reshape(shape), datatype="BYTES")
    assert request.queries.shape == (3, 4, 4, 3)
    for got, file in zip(request.queries, files, strict=True):
        np.testing.assert_array_equal(got, decode_image(file, PICTURES.input, 1 << 20, 1 << 20))


def test_the_client_asks_for_binary_answers_unless_told_otherwise():
    array = np.ones((1, 2, 2), np.float32)
    body, headers = written(array)
    sent = json.loads(body[: int(headers[JSON_LENGTH])])
    assert sent["parameters"] == {"binary_data_output": True}
    assert parsed(NUMBERS, array).binary
    for binary in (True, False):
        wanted = [triton.InferRequestedOutput("logits", binary_data=binary)]
        assert parsed(NUMBERS, array, outputs=wanted).binary is binary


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("binary", [True, False])
def test_answers_are_read_as_they_were_given(dtype, binary):
    model = manifest((2, 2), "float32", None, (2, 3), dtype)
    wanted = [triton.InferRequestedOutput("logits", binary_data=binary)]
    request = parsed(model, np.ones((4, 2, 2), np.float32), outputs=wanted, request_id="r-ü")
    outputs = values(dtype, 4, 2, 3) + np.array(0.1).astype(dtype)
    result, headers = answer(request, outputs, model)
    got = result.as_numpy("logits")
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, outputs)
    response = result.get_response()
    assert (response["id"], response["model_name"], response["model_version"]) == ("r-ü", "m", "7")
    assert (JSON_LENGTH in headers) is binary


@pytest.mark.parametrize("binary", [True, False])
def test_answers_with_nan_and_infinities_can_be_read(binary):
    wanted = [triton.InferRequestedOutput("logits", binary_data=binary)]
    request = parsed(NUMBERS, np.ones((1, 2, 2), np.float32), outputs=wanted)
    result, _ = answer(request, np.array([[np.nan, np.inf, 1]], np.float32))
    got = result.as_numpy("logits")[0]
    assert np.isnan(got[0])
    assert got[2] == 1
    # JSON has no infinity; binary answers keep it.
    assert np.isinf(got[1]) if binary else np.isnan(got[1])


def test_provenance_is_where_the_client_can_see_it():
    request = parsed(NUMBERS, np.ones((1, 2, 2), np.float32))
    result, _ = answer(request, np.ones((1, 3), np.float32), outcome=Outcome.RECONSTRUCTED)
    parameters = result.get_response()["parameters"]
    assert parameters == {
        "outcome": "reconstructed",
        "reconstructed": True,
        "group": 3,
        "slot": 0,
        "lateness_ms": 0.0,
    }


def test_deadline_and_redundancy_can_be_given_through_the_client():
    array = np.ones((1, 2, 2), np.float32)
    request = parsed(NUMBERS, array, timeout=250_000, parameters={"redundancy": False})
    assert request.deadline_ms == 250
    assert request.redundancy is False
    assert parsed(NUMBERS, array, parameters={"deadline_ms": 40}, timeout=1).deadline_ms == 40
    assert parsed(NUMBERS, array, priority=1, sequence_id=5).deadline_ms is None


def test_what_is_not_supported_is_refused_by_name():
    item = triton.InferInput("image", [1, 2, 2], "FP32")
    item.set_shared_memory("region", 16)
    shared, _ = Client.generate_request_body([item])
    array = np.ones((1, 2, 2), np.float32)
    classes = written(array, outputs=[triton.InferRequestedOutput("logits", class_count=2)])
    output = triton.InferRequestedOutput("logits")
    output.set_shared_memory("region", 16)
    for (body, headers), field in (
        ((shared, Headers()), "inputs[0].parameters.shared_memory_region"),
        (classes, "outputs[0].parameters.classification"),
        (written(array, outputs=[output]), "outputs[0].parameters.shared_memory_region"),
    ):
        with pytest.raises(ValueError, match="expected") as refused:
            parse_infer_request(body, headers, NUMBERS, Limits())
        assert refused.value.field == field
