"""What the control plane answers to a front end's report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Word:
    """snapshot: the newest, as JSON; None = the front end has it, or there is none. wanted: the control plane
    is a new one, and would know the front end's.
    """

    snapshot: str | None
    wanted: bool = False
