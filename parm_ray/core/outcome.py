"""How a query ended. One enum is metric label, record field and response header."""

from __future__ import annotations

from enum import Enum


class Outcome(str, Enum):
    """Where the answer came from.

    COPY: the deployed model too, from another call than the first (a replica or a hedge). BACKUP: the
    backup model.
    """

    ORIGINAL = "original"
    COPY = "copy"
    RECONSTRUCTED = "reconstructed"
    BACKUP = "backup"
    DEFAULT = "default"
    FAILED = "failed"
