"""Parameters of families, checked; the errors name the field and the legal range."""

from __future__ import annotations

import math


def above(name: str, value: float, bound: float) -> None:
    """Raise ValueError unless `value` is finite and > `bound`."""
    if not (math.isfinite(value) and value > bound):
        raise ValueError(f"{name}: expected a finite number > {bound:g}, got {value!r}")


def at_least(name: str, value: float, bound: float) -> None:
    """Raise ValueError unless `value` is finite and >= `bound`."""
    if not (math.isfinite(value) and value >= bound):
        raise ValueError(f"{name}: expected a finite number >= {bound:g}, got {value!r}")


def share(name: str, value: float) -> None:
    """Raise ValueError unless 0 <= `value` <= 1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name}: expected 0..1, got {value!r}")


def rank(k: int, n: int) -> None:
    """Raise ValueError unless 1 <= k <= n: the k-th smallest of n."""
    if n < 1:
        raise ValueError(f"n: expected >= 1, got {n}")
    if not 1 <= k <= n:
        raise ValueError(f"k: expected 1..n ({n}), got {k}")
