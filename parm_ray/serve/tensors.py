"""Open Inference Protocol tensors to numpy arrays and back. No value is ever wrapped or guessed."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from array import array
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parm_ray.core import InvalidInput

Array = NDArray[Any]

DTYPES: dict[str, np.dtype] = {
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
_MAX = float(np.finfo(np.float64).max)


def datatype_of(dtype: np.dtype) -> str:
    """The protocol's name of a numpy dtype."""
    return NAMES[np.dtype(dtype)]


def check_shape(shape: Any, field: str) -> tuple[int, ...]:
    """Return a JSON shape as a tuple of sizes >= 0. Raises InvalidInput."""
    if not isinstance(shape, list) or not shape:
        raise InvalidInput(field, "a list of sizes", shown(shape))
    for size in shape:
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 2**31:
            raise InvalidInput(field, "sizes from 0 to 2147483647", shown(size))
    return tuple(shape)


def from_binary(data: bytes | memoryview, dtype: np.dtype, shape: tuple[int, ...], field: str) -> Array:
    """Return `data` as an array (read-only). Raises InvalidInput on its length.

    Nothing is copied, unless the values lie at addresses that native code may not read them from.
    """
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise InvalidInput(
            field, f"{expected} bytes for {datatype_of(dtype)}{list(shape)}", f"{len(data)} bytes"
        )
    values = np.frombuffer(data, dtype).reshape(shape)
    if not values.flags.aligned:
        values = values.copy()
        values.flags.writeable = False
    return values


def from_json(data: Any, dtype: np.dtype, shape: tuple[int, ...], field: str) -> Array:
    """Return JSON `data`, nested like the shape or flat row-major, as an array. Raises InvalidInput.

    Numbers must be representable: no wrap-around, no fraction into an integer, no true for 1.
    """
    flat, types = _flattened(data, shape, field)
    return _exact(flat, types, dtype, field).reshape(shape)


def _flattened(data: Any, shape: tuple[int, ...], field: str) -> tuple[list[Any], set[type]]:
    """The values in row-major order and their types; numpy would guess what a ragged list means."""
    wanted = f"{math.prod(shape)} values, flat or nested as {list(shape)}"
    if not isinstance(data, list):
        raise InvalidInput(field, wanted, shown(data))
    flat, types = data, set(map(type, data))
    if list in types:
        for depth, size in enumerate(shape):
            if depth:
                if types != {list}:
                    raise InvalidInput(field, wanted, f"values beside lists at depth {depth}")
                sizes = set(map(len, flat))
                if sizes != {size}:
                    raise InvalidInput(field, wanted, f"lists of {shown(sorted(sizes))} at depth {depth}")
                flat = list(chain.from_iterable(flat))
                types = set(map(type, flat))
            elif len(flat) != size:
                raise InvalidInput(field, wanted, f"a list of {len(flat)} lists")
        if list in types:
            raise InvalidInput(field, wanted, "deeper lists")
    elif len(flat) != math.prod(shape):
        raise InvalidInput(field, wanted, f"{len(flat)} values")
    return flat, types


def _exact(flat: list[Any], types: set[type], dtype: np.dtype, field: str) -> Array:
    name = datatype_of(dtype)
    if not types <= {int, float}:
        raise InvalidInput(field, f"numbers for {name}", _first(flat, lambda v: type(v) not in (int, float)))
    if dtype.kind == "f":
        try:
            exact = np.frombuffer(array("d", flat), np.float64)
        except OverflowError:
            raise InvalidInput(
                field, f"numbers that {name} can hold", _first(flat, lambda v: abs(v) > _MAX)
            ) from None
        with np.errstate(over="ignore"):
            values = exact.astype(dtype)
        lost = np.isinf(values) & np.isfinite(exact)
        if lost.any():
            raise InvalidInput(field, f"numbers that {name} can hold", shown(flat[int(lost.argmax())]))
        return values
    if float in types:
        raise InvalidInput(field, f"whole numbers for {name}", _first(flat, lambda v: type(v) is float))
    try:
        # `array` checks each value against the C type, which numpy before 2 does not.
        return np.frombuffer(array(dtype.char, flat), dtype)
    except OverflowError:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        raise InvalidInput(
            field, f"{name} values from {low} to {high}", _first(flat, lambda v: not low <= v <= high)
        ) from None


def split_bytes(data: bytes | memoryview, count: int, field: str) -> list[bytes]:
    """Return the `count` elements of a binary BYTES tensor: 4-byte little-endian length, then bytes."""
    elements: list[bytes] = []
    at = 0
    while at < len(data) and len(elements) < count:
        if at + 4 > len(data):
            raise InvalidInput(field, "a 4-byte length before each element", f"{len(data) - at} bytes")
        (length,) = struct.unpack_from("<I", data, at)
        at += 4
        if at + length > len(data):
            raise InvalidInput(field, f"{length} bytes of element {len(elements)}", f"{len(data) - at} bytes")
        elements.append(bytes(data[at : at + length]))
        at += length
    if len(elements) != count or at != len(data):
        got = f"{len(elements)} and {len(data) - at} more bytes"
        raise InvalidInput(field, f"{count} elements, each after its length", got)
    return elements


def bytes_from_json(data: Any, count: int, field: str) -> list[bytes]:
    """Return `count` elements of a JSON BYTES tensor of files: base64 strings, flat or one per row."""
    if not isinstance(data, list) or len(data) != count:
        got = f"{len(data)} values" if isinstance(data, list) else shown(data)
        raise InvalidInput(field, f"a list of {count} base64 strings", got)
    elements = []
    for i, item in enumerate(data):
        text = item[0] if isinstance(item, list) and len(item) == 1 else item
        if not isinstance(text, str):
            raise InvalidInput(f"{field}[{i}]", "a base64 string", shown(text))
        try:
            elements.append(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            raise InvalidInput(f"{field}[{i}]", "a base64 string", shown(text)) from None
    return elements


def to_json(array: Array) -> list[Any]:
    """Flat row-major values; what JSON has no number for (NaN, infinities) becomes null."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        return [value if math.isfinite(value) else None for value in flat.tolist()]
    return flat.tolist()


def shown(value: object, depth: int = 2) -> str:
    """What a message shows of a JSON value: short, and cheap however large or deep the value is."""
    match value:
        case None:
            return "nothing" if depth == 2 else "null"
        case bool():
            return str(value).lower()
        case str():
            return repr(value) if len(value) <= 60 else repr(value[:57]) + "..."
        case int() if value.bit_length() > 128:
            return f"an integer of {value.bit_length()} bits"
        case list() if depth:
            few = ", ".join(shown(item, depth - 1) for item in value[:6])
            return f"[{few}{', ...' if len(value) > 6 else ''}]"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return f"an object of {len(value)} keys"
    return repr(value)[:60]


def _first(flat: list[Any], is_bad: Callable[[Any], bool]) -> str:
    at = next((i for i, value in enumerate(flat) if is_bad(value)), 0)
    return f"{shown(flat[at], 1)} at {at}"
