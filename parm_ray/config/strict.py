"""What all settings have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

PositiveMs = Annotated[float, Field(gt=0, le=3_600_000)]
Millis = Annotated[float, Field(ge=0, le=3_600_000)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Count = Annotated[int, Field(ge=1, le=1000)]


class Strict(BaseModel):
    """Immutable; keys that it does not know are refused with their path."""

    model_config = ConfigDict(extra="forbid", frozen=True)
