"""How a query ended. One enum is metric label, record field and response header."""

from __future__ import annotations

from enum import Enum


class Outcome(str, Enum):
    """Where the answer came from."""

    ORIGINAL = "original"
    RECONSTRUCTED = "reconstructed"
    DEFAULT = "default"
    FAILED = "failed"
