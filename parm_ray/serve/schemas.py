"""What the OpenAPI page says about the protocol's bodies. Requests are checked by `protocol`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class TensorMetadata(BaseModel):
    """A tensor the model takes or gives."""

    name: str
    datatype: str
    shape: list[int] = Field(description="-1 = any number of queries")


class ModelMetadata(BaseModel):
    """A served model."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class ServerMetadata(BaseModel):
    """This server."""

    name: str
    version: str
    extensions: list[str]


class RequestTensor(BaseModel):
    """A tensor of queries: `data` flat or nested, or `parameters.binary_data_size` and binary data."""

    name: str
    datatype: str = Field(description="the model's, or BYTES for JPEG/PNG files (base64 in JSON)")
    shape: list[int] = Field(description="[n, then the model's input shape], or [n] for n files")
    parameters: dict[str, bool | int | float | str] = Field({}, description="binary_data_size, in bytes")
    data: list[Any] | None = Field(None, description="absent when the tensor is binary")


class RequestedOutput(BaseModel):
    """An output the client wants, and whether in binary."""

    name: str
    parameters: dict[str, bool | int | float | str] = Field({}, description="binary_data: true or false")


class InferenceRequest(BaseModel):
    """`parameters`: deadline_ms (or timeout in microseconds), redundancy, binary_data_output."""

    id: str | None = Field(None, description="sent back with the answer")
    parameters: dict[str, bool | int | float | str] = Field(
        {}, description="deadline_ms; timeout (microseconds, 0 = none); redundancy; binary_data_output"
    )
    inputs: list[RequestTensor]
    outputs: list[RequestedOutput] = []


class ResponseTensor(BaseModel):
    """An output tensor: `data` flat row-major, null for NaN and infinities; or binary data."""

    name: str
    datatype: str
    shape: list[int] = Field(description="[n, then the model's output shape]")
    parameters: dict[str, bool | int | float | str] = Field({}, description="binary_data_size, in bytes")
    data: list[Any] | None = Field(None, description="absent when the tensor is binary")


class InferenceResponse(BaseModel):
    """`parameters` say where the answer came from: outcome, reconstructed, group, slot, lateness_ms."""

    model_name: str
    model_version: str
    id: str | None = None
    parameters: dict[str, bool | int | float | str]
    outputs: list[ResponseTensor]


class Error(BaseModel):
    """Why a request was refused."""

    error: str


_EXAMPLE = {
    "inputs": [{"name": "image", "datatype": "UINT8", "shape": [1, 2, 2, 1], "data": [0, 85, 170, 255]}],
    "parameters": {"deadline_ms": 500, "redundancy": True},
}


def _inlined(model: type[BaseModel]) -> dict[str, Any]:
    """The schema with its definitions put in place, since OpenAPI has no local ones."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    def resolve(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return resolve(definitions[node["$ref"].rsplit("/", 1)[1]])
            return {key: resolve(value) for key, value in node.items()}
        return [resolve(item) for item in node] if isinstance(node, list) else node

    resolved: dict[str, Any] = resolve(schema)
    return resolved


def _header(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "schema": schema, "description": description}


_HEADERS = [
    _header(
        "Inference-Header-Content-Length",
        {"type": "integer"},
        "bytes of the JSON part, when binary data follow it",
    ),
    _header("x-parm-deadline-ms", {"type": "number"}, "as parameter deadline_ms, which wins"),
    _header("x-parm-redundancy", {"enum": ["on", "off"]}, "as parameter redundancy, which wins"),
]
_ANSWER_HEADERS = {
    name: {"schema": {"type": "string"}, "description": description}
    for name, description in {
        "x-parm-outcome": "original, copy, reconstructed, backup or default; the worst of several queries",
        "x-parm-group": "group of each query, separated by commas",
        "x-parm-slot": "slot of each query, separated by commas",
        "x-parm-lateness-ms": "how late each stand-in answer was used, separated by commas; 0 for originals",
    }.items()
}

INFER: dict[str, Any] = {
    "parameters": _HEADERS,
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": _inlined(InferenceRequest), "example": _EXAMPLE},
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    },
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"model": InferenceResponse, "headers": _ANSWER_HEADERS},
    **{
        status: {"model": Error, "description": what}
        for status, what in {
            400: "Malformed request; the message names the field and what is expected",
            404: "No such model or version",
            413: "Body, image or number of queries above the limit",
            502: "The model failed on every replica tried",
            503: "Queue full; see Retry-After",
            504: "No answer by the deadline",
        }.items()
    },
}
