"""Checks what comes in by handle, so that both doors refuse the same things in the same words."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.core.errors import InvalidInput, PayloadTooLarge
from parm_ray.models.images import decode_images
from parm_ray.models.manifest import InputSpec
from parm_ray.serve.protocol import MAX_DEADLINE_MS, Limits
from parm_ray.serve.tensors import shown

Array = NDArray[np.generic]


def check_deadline(deadline_ms: object) -> float:
    """Return the deadline in seconds. Zero or less is legal, and has passed already."""
    # Real: numpy's numbers too.
    if isinstance(deadline_ms, Real) and not isinstance(deadline_ms, bool):
        number: Any = deadline_ms
        # A NaN is at most nothing; a huge negative int is no float.
        if number <= MAX_DEADLINE_MS:
            return float(number if number >= -MAX_DEADLINE_MS else -MAX_DEADLINE_MS) / 1e3
    legal = f"a number of milliseconds, at most {MAX_DEADLINE_MS:.0f}"
    raise InvalidInput("deadline_ms", legal, shown(deadline_ms))


def check_redundancy(redundancy: object) -> bool:
    """Return the opt-out flag. Raises InvalidInput for anything that is not true or false."""
    if not isinstance(redundancy, bool):
        raise InvalidInput("redundancy", "True or False", repr(redundancy)[:60])
    return redundancy


def check_query(query: ArrayLike | bytes, spec: InputSpec, limits: Limits) -> Array:
    """Return one query as `[1, *input]`: an array of the model's shape and dtype, or an image file."""
    if isinstance(query, bytes | bytearray | memoryview):
        return decode_images({"query": bytes(query)}, spec, limits.max_image_bytes, limits.max_image_pixels)
    array = _array(query, "query")
    if array.shape != spec.shape:
        raise InvalidInput("query", f"shape {list(spec.shape)}", shown(list(array.shape)))
    return _checked(array[None], "query", spec, limits)


def check_queries(queries: ArrayLike, spec: InputSpec, limits: Limits) -> Array:
    """Return `[n, *input]`, contiguous. Raises InvalidInput naming `queries` and what is expected."""
    array = _array(queries, "queries")
    if array.ndim != len(spec.shape) + 1 or array.shape[1:] != spec.shape:
        legal = f"shape [n{''.join(f', {size}' for size in spec.shape)}]"
        raise InvalidInput("queries", legal, shown(list(array.shape)))
    if not 1 <= len(array) <= limits.max_queries:
        kind = PayloadTooLarge if len(array) else InvalidInput
        raise kind("queries", f"1 to {limits.max_queries} queries", len(array))
    return _checked(array, "queries", spec, limits)


def _array(value: ArrayLike, field: str) -> Array:
    try:
        return np.asarray(value)
    except Exception as error:  # Whatever a stranger's __array__ raises: ragged lists, tensors on a GPU.
        why = f"{type(value).__name__} ({str(error)[:120]})"
        raise InvalidInput(field, "what numpy makes an array of", why) from None


def _checked(array: Array, field: str, spec: InputSpec, limits: Limits) -> Array:
    if array.dtype != spec.numpy_dtype:
        raise InvalidInput(field, f"dtype {spec.dtype}", str(array.dtype)[:60])
    if limits.refuse_nan and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InvalidInput(field, "finite numbers", "NaN or infinity")
    return np.ascontiguousarray(array)
