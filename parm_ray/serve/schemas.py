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
    shape: list[int]
    parameters: dict[str, bool | int | float | str] = {}
    data: list[Any] | None = None


class RequestedOutput(BaseModel):
    """An output the client wants, and whether in binary."""

    name: str
    parameters: dict[str, bool | int | float | str] = {}


class InferenceRequest(BaseModel):
    """`parameters`: deadline_ms (or timeout in microseconds), redundancy, binary_data_output."""

    id: str | None = None
    parameters: dict[str, bool | int | float | str] = {}
    inputs: list[RequestTensor]
    outputs: list[RequestedOutput] = []


class ResponseTensor(RequestTensor):
    """An output tensor."""


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
    "inputs": [{"name": "image", "datatype": "UINT8", "shape": [1, 28, 28, 1], "data": [0]}],
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


INFER: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": _inlined(InferenceRequest), "example": _EXAMPLE},
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"model": InferenceResponse},
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
