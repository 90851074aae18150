"""Checks what comes in by handle, so that both doors refuse the same things in the same words."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.core.errors import InvalidInput, PayloadTooLarge
from parm_ray.models.images import decode_image
from parm_ray.models.manifest import InputSpec
from parm_ray.serve.protocol import Limits

Array = NDArray[np.generic]

MAX_DEADLINE_MS = 3_600_000.0


def check_deadline(deadline_ms: object) -> float:
    """Return the deadline in seconds. Zero or less is legal, and has passed already."""
    if isinstance(deadline_ms, bool) or not isinstance(deadline_ms, int | float) or math.isnan(deadline_ms):
        raise InvalidInput("deadline_ms", "a number of milliseconds", repr(deadline_ms))
    if deadline_ms > MAX_DEADLINE_MS:
        raise InvalidInput("deadline_ms", f"at most {MAX_DEADLINE_MS:.0f}", repr(deadline_ms))
    return float(deadline_ms) / 1e3


def check_query(query: ArrayLike | bytes, spec: InputSpec, limits: Limits) -> Array:
    """Return one query as `[1, *input]`: an array of the model's shape and dtype, or an image file."""
    if isinstance(query, bytes | bytearray | memoryview):
        if spec.layout is None:
            raise InvalidInput("query", f"an array {spec.dtype}{list(spec.shape)}", "bytes")
        return decode_image(bytes(query), spec, limits.max_image_bytes, limits.max_image_pixels)[None]
    array = np.asarray(query)
    if array.shape != spec.shape:
        raise InvalidInput("query", f"shape {list(spec.shape)}", f"{list(array.shape)}")
    return check_queries(array[None], spec, limits)


def check_queries(queries: ArrayLike, spec: InputSpec, limits: Limits) -> Array:
    """Return `[n, *input]`, contiguous. Raises InvalidInput naming `queries` and what is expected."""
    array = np.asarray(queries)
    if array.ndim != len(spec.shape) + 1 or array.shape[1:] != spec.shape:
        raise InvalidInput("queries", f"shape [n, {', '.join(map(str, spec.shape))}]", f"{list(array.shape)}")
    if not 1 <= len(array) <= limits.max_queries:
        kind = PayloadTooLarge if len(array) else InvalidInput
        raise kind("queries", f"1 to {limits.max_queries} queries", len(array))
    if array.dtype != spec.numpy_dtype:
        raise InvalidInput("queries", f"dtype {spec.dtype}", str(array.dtype))
    if limits.refuse_nan and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InvalidInput("queries", "finite numbers", "NaN or infinity")
    return np.ascontiguousarray(array)
