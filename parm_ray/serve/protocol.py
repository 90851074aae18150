"""Open Inference Protocol v2 requests: JSON and the binary tensor extension, checked field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parm_ray.core import InvalidInput
from parm_ray.core.errors import PayloadTooLarge
from parm_ray.models.images import decode_images
from parm_ray.models.manifest import InputSpec, Manifest
from parm_ray.serve.tensors import (
    BYTES,
    bytes_from_json,
    check_shape,
    datatype_of,
    from_binary,
    from_json,
    shown,
    split_bytes,
)

Array = NDArray[Any]

JSON_LENGTH = "inference-header-content-length"
DEADLINE = "x-parm-deadline-ms"
REDUNDANCY = "x-parm-redundancy"
MAX_DEADLINE_MS = 3_600_000.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may be at most, see `config.LimitSettings`.

    max_image_bytes: of one file. max_image_pixels: of all files of a request, since decoding keeps
    the ingress from everything else.
    """

    max_body_bytes: int = 32 * 1024 * 1024
    max_queries: int = 64
    max_image_bytes: int = 16 * 1024 * 1024
    max_image_pixels: int = 50_000_000
    refuse_nan: bool = True


@dataclass(frozen=True, slots=True)
class InferRequest:
    """A checked request: `queries` is `[n, *input]`, contiguous, of the model's dtype."""

    id: str | None
    queries: Array
    deadline_ms: float | None
    redundancy: bool
    binary: bool


def may_hold_files(body: bytes) -> bool:
    """Whether parsing may have to decode pictures; cheap, and never false for a request that does."""
    return b"BYTES" in body


def parse_infer_request(
    body: bytes, headers: Mapping[str, str], manifest: Manifest, limits: Limits
) -> InferRequest:
    """Return the checked request. Raises InvalidInput or PayloadTooLarge, naming the field.

    `headers` must look names up in any case, as Starlette's do.
    """
    if len(body) > limits.max_body_bytes:
        raise PayloadTooLarge("body", f"at most {limits.max_body_bytes} bytes", f"{len(body)} bytes")
    encoding = headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise InvalidInput("content-encoding", "a body that is not compressed", shown(encoding))
    document, binary = _split(body, headers.get(JSON_LENGTH))
    tensor = _only_input(document, manifest.input.name)
    queries = _queries(tensor, binary, manifest.input, limits)
    parameters = _mapping(document.get("parameters"), "parameters")
    identity = document.get("id")
    if identity is not None and not isinstance(identity, str):
        raise InvalidInput("id", "a string", shown(identity))
    return InferRequest(
        identity,
        queries,
        _deadline(parameters, headers),
        _redundancy(parameters, headers),
        _binary_output(document, parameters, manifest.output.name),
    )


def _split(body: bytes, json_length: str | None) -> tuple[dict[str, Any], memoryview | None]:
    """The JSON document and the binary part, None when the request has no binary header."""
    view = memoryview(body)
    end = len(body)
    if json_length is not None:
        if not json_length.isascii() or not json_length.isdigit() or len(json_length) > 12:
            raise InvalidInput(JSON_LENGTH, "a number of bytes", shown(json_length))
        end = int(json_length)
        if end > len(body):
            raise InvalidInput(JSON_LENGTH, f"at most the body's {len(body)} bytes", end)
    hint = "" if json_length is not None else f"; a binary request needs the header {JSON_LENGTH}"
    try:
        document = json.loads(str(view[:end], "utf-8"), object_pairs_hook=_without_repeats)
    except _RepeatedKeyError as error:
        raise InvalidInput("body", "a JSON object with each key once", f"{error} twice") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput("body", f"a JSON object{hint}", str(error)[:120] or "nested too deeply") from None
    if not isinstance(document, dict):
        raise InvalidInput("body", "a JSON object", shown(document))
    return document, None if json_length is None else view[end:]


class _RepeatedKeyError(Exception):
    """A JSON object has a key twice; which of the two is meant cannot be told."""


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    together = dict(pairs)
    if len(together) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RepeatedKeyError(shown(key))
            seen.add(key)
    return together


def _only_input(document: dict[str, Any], name: str) -> dict[str, Any]:
    inputs = document.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        got = f"{len(inputs)} tensors" if isinstance(inputs, list) and len(inputs) != 1 else shown(inputs)
        raise InvalidInput("inputs", "a list of one tensor", got)
    tensor: dict[str, Any] = inputs[0]
    if tensor.get("name") != name:
        raise InvalidInput("inputs[0].name", repr(name), shown(tensor.get("name")))
    return tensor


def _queries(tensor: dict[str, Any], binary: memoryview | None, spec: InputSpec, limits: Limits) -> Array:
    datatype, expected = tensor.get("datatype"), datatype_of(spec.numpy_dtype)
    image = spec.layout is not None
    if datatype != expected and not (image and datatype == BYTES):
        legal = f"{expected} or BYTES (JPEG or PNG files)" if image else expected
        raise InvalidInput("inputs[0].datatype", legal, shown(datatype))
    shape = check_shape(tensor.get("shape"), "inputs[0].shape")
    _check_queries(shape, None if datatype == BYTES else spec.shape, limits)
    data, field = _data(tensor, binary)
    if datatype == BYTES:
        read = split_bytes if isinstance(data, memoryview) else bytes_from_json
        files = read(data, shape[0], field)
        named = {f"{field}[{i}]": file for i, file in enumerate(files)}
        return decode_images(named, spec, limits.max_image_bytes, limits.max_image_pixels)
    read_tensor = from_binary if isinstance(data, memoryview) else from_json
    queries = read_tensor(data, spec.numpy_dtype, shape, field)
    if limits.refuse_nan and queries.dtype.kind == "f" and not np.isfinite(queries).all():
        raise InvalidInput(field, "finite numbers", "NaN or infinity")
    return queries


def _check_queries(shape: tuple[int, ...], query: tuple[int, ...] | None, limits: Limits) -> None:
    # Files (query None) come as [n], or [n, 1] as some clients write a batch of one string each.
    if shape[1:] != query and not (query is None and shape[1:] in ((), (1,))):
        legal = "[n] or [n, 1]" if query is None else f"[n{''.join(f', {size}' for size in query)}]"
        raise InvalidInput("inputs[0].shape", legal, shown(list(shape)))
    if shape[0] < 1:
        raise InvalidInput("inputs[0].shape", f"1 to {limits.max_queries} queries", shape[0])
    if shape[0] > limits.max_queries:
        raise PayloadTooLarge("inputs[0].shape", f"1 to {limits.max_queries} queries", shape[0])


def _data(tensor: dict[str, Any], binary: memoryview | None) -> tuple[Any, str]:
    """The tensor's data and the name to blame: a memoryview when it is binary, else JSON."""
    parameters = _mapping(tensor.get("parameters"), "inputs[0].parameters")
    _refuse_shared_memory(parameters, "inputs[0].parameters")
    size = parameters.get("binary_data_size")
    if size is None:
        if binary:
            legal = f"{len(binary)}, the bytes after the JSON part"
            raise InvalidInput("inputs[0].parameters.binary_data_size", legal, "nothing")
        if "data" not in tensor:
            raise InvalidInput("inputs[0].data", "values, or binary_data_size and binary data", "nothing")
        return tensor["data"], "inputs[0].data"
    field = "inputs[0].parameters.binary_data_size"
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise InvalidInput(field, "a number of bytes", shown(size))
    if "data" in tensor:
        raise InvalidInput("inputs[0].data", "nothing beside binary_data_size", "values")
    if binary is None:
        raise InvalidInput(JSON_LENGTH, "the header, since the tensor is binary", "no such header")
    if size != len(binary):
        raise InvalidInput(field, f"{len(binary)}, the bytes after the JSON part", shown(size))
    return binary, "inputs[0] (binary)"


def _refuse_shared_memory(parameters: Mapping[str, Any], where: str) -> None:
    if "shared_memory_region" in parameters:
        raise InvalidInput(f"{where}.shared_memory_region", "nothing; data comes in the body", "a region")


def _deadline(parameters: Mapping[str, Any], headers: Mapping[str, str]) -> float | None:
    """Milliseconds: parameter `deadline_ms`, else Triton's `timeout` (microseconds), else the header.

    Zero or less is legal and has passed already, but a `timeout` of 0 is Triton's word for none.
    """
    value = parameters.get("deadline_ms")
    if value is not None:
        return _milliseconds(value, "parameters.deadline_ms", "milliseconds", 1)
    value = parameters.get("timeout")
    if value is not None and (value != 0 or isinstance(value, bool)):
        return _milliseconds(value, "parameters.timeout", "microseconds", 1000)
    text = headers.get(DEADLINE)
    if text is None:
        return None
    try:
        number: Any = text if "_" in text else float(text)
    except ValueError:
        number = text
    return _milliseconds(number, DEADLINE, "milliseconds", 1)


def _milliseconds(value: Any, field: str, unit: str, per_ms: int) -> float:
    most = MAX_DEADLINE_MS * per_ms
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not value <= most:
        raise InvalidInput(field, f"a number of {unit}, at most {most:.0f}", shown(value))
    return float(max(value, -most)) / per_ms


def _redundancy(parameters: Mapping[str, Any], headers: Mapping[str, str]) -> bool:
    value = parameters.get("redundancy")
    if value is not None:
        if not isinstance(value, bool):
            raise InvalidInput("parameters.redundancy", "true or false", shown(value))
        return value
    text = headers.get(REDUNDANCY, "on").lower()
    if text not in ("on", "off"):
        raise InvalidInput(REDUNDANCY, "on or off", shown(text))
    return text == "on"


def _binary_output(document: Mapping[str, Any], parameters: Mapping[str, Any], name: str) -> bool:
    binary = _flag(parameters, "binary_data_output", "parameters", False)
    outputs = document.get("outputs")
    if outputs is None or outputs == []:
        return binary
    if not isinstance(outputs, list) or len(outputs) != 1 or not isinstance(outputs[0], dict):
        raise InvalidInput("outputs", f"a list of one, {name!r}", shown(outputs))
    if outputs[0].get("name") != name:
        raise InvalidInput("outputs[0].name", repr(name), shown(outputs[0].get("name")))
    own = _mapping(outputs[0].get("parameters"), "outputs[0].parameters")
    _refuse_shared_memory(own, "outputs[0].parameters")
    if own.get("classification"):
        raise InvalidInput("outputs[0].parameters.classification", "nothing", shown(own["classification"]))
    return _flag(own, "binary_data", "outputs[0].parameters", binary)


def _flag(mapping: Mapping[str, Any], key: str, where: str, default: bool) -> bool:
    value = mapping.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InvalidInput(f"{where}.{key}", "true or false", shown(value))
    return value


def _mapping(value: Any, field: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(field, "an object", shown(value))
    return value
