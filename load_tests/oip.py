"""The client's side of the Open Inference Protocol v2 with its binary tensor extension.

A body is a JSON document followed by the raw bytes of the tensors, little-endian and row-major; the
header `Inference-Header-Content-Length` says where the JSON ends.
https://github.com/kserve/open-inference-protocol and Triton's "Binary Tensor Data Extension".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

JSON_LENGTH = "Inference-Header-Content-Length"

# Protocol datatype -> numpy dtype.
DTYPES = {
    "BOOL": np.dtype("?"),
    **{f"UINT{8 * n}": np.dtype(f"<u{n}") for n in (1, 2, 4, 8)},
    **{f"INT{8 * n}": np.dtype(f"<i{n}") for n in (1, 2, 4, 8)},
    **{f"FP{8 * n}": np.dtype(f"<f{n}") for n in (2, 4, 8)},
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Malformed(ValueError):
    """A response that is not what the protocol says; the message says where."""


class RequestTemplate:
    """Requests for the same number of queries each: the JSON is built once, only the bytes differ."""

    def __init__(
        self, input_name: str, shape: tuple[int, ...], dtype: np.dtype, output_name: str, queries: int = 1
    ) -> None:
        """`shape` is per query; the batch dimension is added. Raises KeyError for an unknown dtype."""
        size = queries * int(np.prod(shape)) * dtype.itemsize
        document = {
            "inputs": [
                {
                    "name": input_name,
                    "shape": [queries, *shape],
                    "datatype": NAMES[dtype.newbyteorder("<")],
                    "parameters": {"binary_data_size": size},
                }
            ],
            "outputs": [{"name": output_name, "parameters": {"binary_data": True}}],
        }
        self.shape = shape if queries == 1 else (queries, *shape)
        self.dtype = dtype.newbyteorder("<")
        self._json = json.dumps(document).encode()
        self.headers = {
            "Content-Type": "application/octet-stream",
            JSON_LENGTH: str(len(self._json)),
        }

    def body(self, query: NDArray[np.generic]) -> bytes:
        """The body for one query `[*shape]`, or for several `[n, *shape]`. Raises ValueError for others."""
        if query.shape != self.shape:
            raise ValueError(f"query: expected shape {self.shape}, got {query.shape}")
        return self._json + query.astype(self.dtype, copy=False).tobytes()


def document(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The JSON part of an infer response. Raises Malformed."""
    length = headers.get(JSON_LENGTH)
    try:
        parsed: dict[str, Any] = json.loads(body[: len(body) if length is None else int(length)])
        return parsed
    except ValueError as error:
        raise Malformed(f"infer response: {error}") from None


def outputs(headers: Mapping[str, str], body: bytes, name: str) -> NDArray[np.generic]:
    """Return the output tensor `name` of an infer response, batch dimension included.

    `headers` must look names up case-insensitively. Raises Malformed.
    """
    length = headers.get(JSON_LENGTH)
    try:
        end = len(body) if length is None else int(length)
        document = json.loads(body[:end])
        offset = end
        for output in document["outputs"]:
            dtype, size = DTYPES[output["datatype"]], output.get("parameters", {}).get("binary_data_size")
            if size is None:
                array = np.asarray(output["data"], dtype)
            else:
                array = np.frombuffer(body[offset : offset + size], dtype)
                offset += size
            if output["name"] == name:
                return array.reshape(output["shape"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Malformed(f"infer response: {type(error).__name__}: {error}") from None
    raise Malformed(f"infer response: no output named {name}")


def error_message(body: bytes) -> str:
    """The `error` of a failed response, or the beginning of whatever came instead."""
    try:
        return str(json.loads(body)["error"])[:200]
    except (ValueError, KeyError, TypeError):
        return body[:120].decode(errors="replace")
