"""Open Inference Protocol tensors to numpy arrays and back. No value is ever wrapped or guessed."""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parm_ray.core import InvalidInput

Array = NDArray[Any]

DTYPES: dict[str, np.dtype] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
BYTES = "BYTES"


def datatype_of(dtype: np.dtype) -> str:
    """The protocol's name of a numpy dtype."""
    return NAMES[np.dtype(dtype)]


def check_shape(shape: Any, field: str) -> tuple[int, ...]:
    """Return a JSON shape as a tuple of sizes >= 0. Raises InvalidInput."""
    if not isinstance(shape, list) or not shape:
        raise InvalidInput(field, "a list of sizes", _short(shape))
    for size in shape:
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 2**31:
            raise InvalidInput(field, "sizes from 0 to 2147483647", _short(size))
    return tuple(shape)


def from_binary(data: bytes | memoryview, dtype: np.dtype, shape: tuple[int, ...], field: str) -> Array:
    """Return `data` as an array without copying it (read-only). Raises InvalidInput on its length."""
    expected = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if len(data) != expected:
        raise InvalidInput(
            field, f"{expected} bytes for {datatype_of(dtype)}{list(shape)}", f"{len(data)} bytes"
        )
    return np.frombuffer(data, dtype).reshape(shape)


def from_json(data: Any, dtype: np.dtype, shape: tuple[int, ...], field: str) -> Array:
    """Return JSON `data`, nested or flat row-major, as an array. Raises InvalidInput.

    Numbers must be representable: no wrap-around, no fraction into an integer, no true for 1.
    """
    if not isinstance(data, list):
        raise InvalidInput(field, "a list of values", _short(data))
    try:
        raw = np.array(data)
    except (ValueError, TypeError, OverflowError):
        raise InvalidInput(field, "a list that is flat or nested like the shape", "a ragged list") from None
    if raw.size != int(np.prod(shape, dtype=object)):
        raise InvalidInput(field, f"{int(np.prod(shape, dtype=object))} values", f"{raw.size}")
    if raw.ndim != 1 and raw.shape != shape:
        raise InvalidInput(
            field, f"flat values or values nested as {list(shape)}", f"nested as {list(raw.shape)}"
        )
    return _exact(raw, data, dtype, field).reshape(shape)


def _exact(raw: Array, data: list[Any], dtype: np.dtype, field: str) -> Array:
    name = datatype_of(dtype)
    if raw.size == 0:
        return raw.astype(dtype)
    if dtype.kind == "b":
        if raw.dtype.kind != "b":
            raise InvalidInput(field, "true or false values", _sample(raw))
        return raw
    # numpy turns [true, 2] into numbers; only the list itself still knows.
    if raw.dtype.kind not in "uif" or _has_bool(data):
        raise InvalidInput(field, f"numbers for {name}", _sample(raw))
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            values = raw.astype(dtype)
        if np.isinf(values).any() and np.isfinite(raw).all():
            raise InvalidInput(field, f"numbers that {name} can hold", _sample(raw[np.isinf(values)]))
        return values
    if raw.dtype.kind == "f":
        raise InvalidInput(field, f"whole numbers for {name}", _sample(raw))
    info = np.iinfo(dtype)
    low, high = int(raw.min()), int(raw.max())
    if low < info.min or high > info.max:
        raise InvalidInput(
            field, f"{name} values from {info.min} to {info.max}", low if low < info.min else high
        )
    return raw.astype(dtype)


def _has_bool(data: Any) -> bool:
    if isinstance(data, list):
        return any(_has_bool(item) for item in data)
    return isinstance(data, bool)


def split_bytes(data: bytes | memoryview, count: int, field: str) -> list[bytes]:
    """Return the `count` elements of a binary BYTES tensor: 4-byte little-endian length, then bytes."""
    elements, at = [], 0
    while at < len(data) and len(elements) <= count:
        if at + 4 > len(data):
            raise InvalidInput(field, "a 4-byte length before each element", "a truncated tensor")
        (length,) = struct.unpack_from("<I", data, at)
        at += 4
        if at + length > len(data):
            raise InvalidInput(field, f"{length} bytes of element {len(elements)}", f"{len(data) - at}")
        elements.append(bytes(data[at : at + length]))
        at += length
    if len(elements) != count or at != len(data):
        raise InvalidInput(field, f"{count} elements", f"{len(elements)} and {len(data) - at} more bytes")
    return elements


def bytes_from_json(data: Any, count: int, field: str) -> list[bytes]:
    """Return `count` elements of a JSON BYTES tensor of files: base64 strings, flat or one per row."""
    if not isinstance(data, list) or len(data) != count:
        got = f"{len(data)} values" if isinstance(data, list) else _short(data)
        raise InvalidInput(field, f"a list of {count} base64 strings", got)
    elements = []
    for i, item in enumerate(data):
        text = item[0] if isinstance(item, list) and len(item) == 1 else item
        if not isinstance(text, str):
            raise InvalidInput(f"{field}[{i}]", "a base64 string", _short(text))
        try:
            elements.append(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            raise InvalidInput(f"{field}[{i}]", "a base64 string", "other characters") from None
    return elements


def to_json(array: Array) -> list[Any]:
    """Flat row-major values; what JSON has no number for (NaN, infinities) becomes null."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        return [value if np.isfinite(value) else None for value in flat.tolist()]
    return flat.tolist()


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _sample(raw: Array) -> str:
    return _short(raw.reshape(-1)[:3].tolist())
