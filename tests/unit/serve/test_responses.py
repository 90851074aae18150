"""Answers and metadata: values, provenance in parameters and headers, what the OpenAPI page promises."""

import json

import numpy as np
import pytest
from fastapi import FastAPI

from parm_ray.core import Outcome
from parm_ray.serve import schemas
from parm_ray.serve.prediction import Prediction
from parm_ray.serve.protocol import JSON_LENGTH, InferRequest
from parm_ray.serve.responses import (
    GROUP,
    LATENESS,
    OUTCOME,
    SLOT,
    build_infer_response,
    error_body,
    model_metadata,
    server_metadata,
)
from tests.support.infer_requests import NUMBERS, PICTURES, manifest

ORIGINAL, RECONSTRUCTED, DEFAULT = Outcome.ORIGINAL, Outcome.RECONSTRUCTED, Outcome.DEFAULT


def prediction(outcome=ORIGINAL, group=5, slot=1, lateness_ms=0.0, values=(1.5, -2, 0)):
    return Prediction(np.array(values, np.float32), outcome, group, slot, lateness_ms)


def build(*predictions, binary=False, identity=None, model=NUMBERS):
    request = InferRequest(identity, np.zeros((len(predictions), 2, 2), np.float32), None, True, binary)
    body, headers = build_infer_response(request, "served", model, predictions)
    cut = int(headers.get(JSON_LENGTH, len(body)))
    return json.loads(body[:cut]), body[cut:], headers


def test_a_json_answer():
    answer, rest, headers = build(prediction(), prediction(values=(0.1, 7, 8)), identity="a")
    assert rest == b""
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("served", "7", "a")
    data = [1.5, -2, 0, float(np.float32(0.1)), 7, 8]
    assert answer["outputs"] == [{"name": "logits", "datatype": "FP32", "shape": [2, 3], "data": data}]
    assert headers["content-type"] == "application/json"
    assert JSON_LENGTH not in headers


def test_a_binary_answer():
    answer, rest, headers = build(prediction(), prediction(), binary=True)
    assert "id" not in answer
    size = {"binary_data_size": 24}
    assert answer["outputs"] == [{"name": "logits", "datatype": "FP32", "shape": [2, 3], "parameters": size}]
    assert np.frombuffer(rest, "<f4").tolist() == [1.5, -2, 0] * 2
    assert headers["content-type"] == "application/octet-stream"


@pytest.mark.parametrize("binary", [True, False])
def test_answers_of_another_dtype_come_in_the_manifest_s(binary):
    model = manifest(output=(2,), output_dtype="float64")
    answer, rest, _ = build(prediction(values=(1, 2)), binary=binary, model=model)
    assert answer["outputs"][0]["datatype"] == "FP64"
    assert (np.frombuffer(rest, "<f8").tolist() if binary else answer["outputs"][0]["data"]) == [1, 2]


@pytest.mark.parametrize("outcome", [ORIGINAL, RECONSTRUCTED, DEFAULT])
def test_provenance_of_one_answer_is_in_parameters_and_headers(outcome):
    answer, _, headers = build(prediction(outcome, group=12, slot=3, lateness_ms=1.23456))
    assert answer["parameters"] == {
        "outcome": outcome.value,
        "reconstructed": outcome is RECONSTRUCTED,
        "group": 12,
        "slot": 3,
        "lateness_ms": 1.235,
    }
    assert headers[OUTCOME] == outcome.value
    assert (headers[GROUP], headers[SLOT], headers[LATENESS]) == ("12", "3", "1.235")


@pytest.mark.parametrize(
    ("outcomes", "worst"),
    [
        ([ORIGINAL, ORIGINAL], "original"),
        ([ORIGINAL, RECONSTRUCTED], "reconstructed"),
        ([RECONSTRUCTED, ORIGINAL, DEFAULT], "default"),
        ([DEFAULT, RECONSTRUCTED], "default"),
    ],
)
def test_provenance_of_several_answers_is_in_lists_and_the_outcome_is_the_worst(outcomes, worst):
    predictions = [prediction(o, i, i % 2, i / 2) for i, o in enumerate(outcomes)]
    answer, _, headers = build(*predictions)
    parameters = answer["parameters"]
    assert parameters["outcome"] == headers[OUTCOME] == worst
    assert parameters["reconstructed"] is (RECONSTRUCTED in outcomes)
    assert parameters["outcomes"].split(",") == [o.value for o in outcomes]
    assert parameters["groups"] == headers[GROUP] == ",".join(str(p.group) for p in predictions)
    assert parameters["slots"] == headers[SLOT] == ",".join(str(p.slot) for p in predictions)
    assert parameters["lateness_ms"] == headers[LATENESS]
    assert [float(v) for v in headers[LATENESS].split(",")] == [p.lateness_ms for p in predictions]
    assert all(isinstance(v, str | int | float | bool) for v in parameters.values())


def test_headers_stay_short_however_many_queries():
    answer, _, headers = build(*[prediction(group=10_000_000 + i) for i in range(4096)])
    assert len(answer["parameters"]["groups"].split(",")) == 4096
    assert headers[OUTCOME] == "original"
    assert max(map(len, headers.values())) <= 4096
    _, _, headers = build(*[prediction(group=10_000_000 + i) for i in range(64)])
    assert {GROUP, SLOT, LATENESS} <= set(headers)


def test_headers_can_be_sent():
    _, _, headers = build(prediction(), identity="ü\ud800\n", binary=True)
    for name, value in headers.items():
        assert f"{name}{value}".isascii()
        assert "\n" not in value
        assert name == name.lower()


@pytest.mark.parametrize("identity", ["ü", "\ud800", '"\n\0', ""])
def test_any_id_comes_back(identity):
    assert build(prediction(), identity=identity)[0]["id"] == identity


def test_what_json_has_no_number_for_is_null():
    answer, _, _ = build(prediction(values=(np.nan, np.inf, 1)))
    assert answer["outputs"][0]["data"] == [None, None, 1]


def test_metadata():
    assert server_metadata("s", "1") == {"name": "s", "version": "1", "extensions": ["binary_tensor_data"]}
    assert model_metadata("served", PICTURES) == {
        "name": "served",
        "versions": ["7"],
        "platform": "parm_ray_torch",
        "inputs": [{"name": "image", "datatype": "UINT8", "shape": [-1, 4, 4, 3]}],
        "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, 3]}],
    }
    schemas.ServerMetadata.model_validate(server_metadata("s", "1"))
    schemas.ModelMetadata.model_validate(model_metadata("served", PICTURES))
    schemas.Error.model_validate(error_body("x"))
    assert error_body("x") == {"error": "x"}


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("count", [1, 3])
def test_answers_are_what_the_openapi_page_says(binary, count):
    answer, _, headers = build(*[prediction(DEFAULT)] * count, binary=binary, identity="a")
    read = schemas.InferenceResponse.model_validate(answer)
    assert read.model_dump(exclude_unset=True) == answer
    described = schemas.RESPONSES[200]["headers"]
    assert set(described) == {OUTCOME, GROUP, SLOT, LATENESS} == set(headers) & set(described)


def openapi():
    api = FastAPI()

    @api.post("/v2/models/{model}/infer", openapi_extra=schemas.INFER, responses=schemas.RESPONSES)
    async def infer(model: str) -> None: ...

    return api.openapi()


def test_the_openapi_document_has_no_dangling_reference():
    document = openapi()
    text = json.dumps(document)
    assert "#/$defs/" not in text
    for part in text.split('"$ref": "')[1:]:
        node = document
        for key in part.split('"')[0].removeprefix("#/").split("/"):
            node = node[key]


def test_the_openapi_page_describes_body_parameters_and_refusals():
    infer = openapi()["paths"]["/v2/models/{model}/infer"]["post"]
    named = {(p["in"], p["name"].lower()) for p in infer["parameters"]}
    assert {
        ("path", "model"),
        ("header", JSON_LENGTH),
        ("header", "x-parm-deadline-ms"),
        ("header", "x-parm-redundancy"),
    } <= named
    assert {"200", "400", "404", "413", "502", "503", "504"} <= set(infer["responses"])
    schema = infer["requestBody"]["content"]["application/json"]["schema"]
    item = schema["properties"]["inputs"]["items"]
    assert set(item["required"]) == {"name", "datatype", "shape"}


def test_the_example_on_the_openapi_page_is_a_legal_request():
    example = schemas.INFER["requestBody"]["content"]["application/json"]["example"]
    read = schemas.InferenceRequest.model_validate(example)
    [item] = read.inputs
    assert int(np.prod(item.shape)) == len(item.data)
    from tests.support.infer_requests import parse

    model = manifest(tuple(item.shape[1:]))
    request = parse(example, model=model)
    assert request.queries.shape == tuple(item.shape)
    assert request.deadline_ms == 500
