"""Numbers checked against the range that is legal for them; the errors name the field and the range."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray


def number(
    name: str,
    value: object,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    unit: str = "",
) -> float:
    """Return `value` as a float if it is a finite number in the range. Raises ValueError naming it."""
    bounds = {">=": at_least, ">": above, "<=": at_most}
    legal = " and ".join(f"{sign} {bound:g}" for sign, bound in bounds.items() if bound is not None)
    words = " ".join(part for part in (unit or "a number", legal) if part)
    # bool is a number to Python, and never meant as one here.
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name}: expected {words}, got {value!r}")
    got = float(value)
    outside = (
        not math.isfinite(got)
        or (at_least is not None and got < at_least)
        or (above is not None and got <= above)
        or (at_most is not None and got > at_most)
    )
    if outside:
        raise ValueError(f"{name}: expected {words}, got {got:g}")
    return got


def whole(name: str, value: object, *, at_least: int = 0) -> int:
    """Return `value` as an int if it is a whole number in the range. Raises ValueError naming it."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < at_least:
        raise ValueError(f"{name}: expected a whole number >= {at_least}, got {value!r}")
    return int(value)


def numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return `values` `[n]`, n >= 1, as finite floats >= 0. Raises ValueError naming the first bad one."""
    raw = np.asarray(values)
    if raw.ndim != 1 or not len(raw):
        raise ValueError(f"{name}: expected a list of at least one number, got shape {list(raw.shape)}")
    if raw.dtype.kind not in "iuf":
        raise ValueError(f"{name}: expected numbers, got {raw.dtype}")
    array = raw.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(bad):
        raise ValueError(f"{name}[{bad[0]}]: expected a finite number >= 0, got {array[bad[0]]:g}")
    return array
