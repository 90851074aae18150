"""Open Inference Protocol requests for tests: two models, documents, bodies with and without binary data."""

import json

import pytest
from starlette.datastructures import Headers

from parm_ray.core.errors import InvalidInput
from parm_ray.models.manifest import InputSpec, Manifest, ModelSource, TensorSpec
from parm_ray.serve.protocol import JSON_LENGTH, Limits, parse_infer_request


def manifest(shape=(4, 4, 3), dtype="uint8", layout="HWC", output=(3,), output_dtype="float32"):
    return Manifest(
        name="m",
        version="7",
        input=InputSpec(name="image", shape=shape, dtype=dtype, layout=layout),
        output=TensorSpec(name="logits", shape=output, dtype=output_dtype),
        model=ModelSource(factory="a:b"),
    )


PICTURES = manifest()
NUMBERS = manifest((2, 2), "float32", None)


def tensor(**changes):
    """A legal tensor of NUMBERS; `...` leaves a key out."""
    base = {"name": "image", "datatype": "FP32", "shape": [1, 2, 2], "data": [1, 2, 3, 4]}
    return {key: value for key, value in (base | changes).items() if value is not ...}


def document(inputs=..., **rest):
    return {"inputs": [tensor()] if inputs is ... else inputs, **rest}


def parse(request, headers=(), model=NUMBERS, limits=None, binary=None):
    """Parse a document or raw bytes; `binary` is appended and announced in the header."""
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    headers = dict(headers)
    if binary is not None:
        headers.setdefault(JSON_LENGTH, str(len(body)))
        body += binary
    return parse_infer_request(body, Headers(headers), model, limits or Limits())


def refused(*args, kind=InvalidInput, **kwargs):
    """The error and the message that parsing ends with; `kind` is its exact class."""
    with pytest.raises(InvalidInput) as caught:
        parse(*args, **kwargs)
    assert type(caught.value) is kind
    message = str(caught.value)
    assert len(message) < 400
    message.encode()
    return caught.value, message
