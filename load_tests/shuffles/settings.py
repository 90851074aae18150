"""Typed settings of background shuffles, loadable from YAML. Unknown keys are refused with their path.

resource: model_node
concurrent: 4
size_mb: [128, 256]
seed: 1
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from parm_ray.config.yaml_file import read_model

SizeMb = Annotated[float, Field(gt=0, le=1_000_000)]


class ShuffleSettings(BaseModel):
    """Background traffic as in the ParM paper: `concurrent` pairs of nodes exchange data at any time.

    resource: nodes that carry it take part (None = every node). size_mb: least and most that an exchange
    moves in each direction, 10^6 bytes. pause_s: between an exchange's end and its successor's start.
    both_ways: the second node sends as much back at the same time. chunk_mb, window: an exchange is sent
    in chunks, at most so many of a direction under way. seed: of pairs and sizes. duration_s: after which
    it ends by itself (None = until it is stopped). via: "objects", chunks through Ray's object stores;
    "tcp", one connection a direction, without the pauses that there are between chunks.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    resource: Annotated[str, Field(min_length=1)] | None = "model_node"
    concurrent: Annotated[int, Field(ge=1, le=64)] = 4
    size_mb: tuple[SizeMb, SizeMb] = (128.0, 256.0)
    pause_s: Annotated[float, Field(ge=0, le=3600)] = 0.0
    both_ways: bool = True
    via: Literal["objects", "tcp"] = "objects"
    chunk_mb: Annotated[float, Field(ge=0.2, le=256)] = 4.0
    window: Annotated[int, Field(ge=1, le=16)] = 2
    seed: Annotated[int, Field(ge=0)] = 0
    duration_s: Annotated[float, Field(gt=0, le=864_000)] | None = None

    @field_validator("size_mb")
    @classmethod
    def _least_then_most(cls, size_mb: tuple[float, float]) -> tuple[float, float]:
        if size_mb[0] > size_mb[1]:
            raise ValueError(f"expected the least size, then the most, got {list(size_mb)}")
        return size_mb

    @property
    def chunk_bytes(self) -> int:
        """Size of a full chunk."""
        return round(self.chunk_mb * 1e6)

    @property
    def most_stored_bytes(self) -> int:
        """What chunks may take of one node's object store, should all exchanges meet there."""
        if self.via == "tcp":
            return 0
        directions = 2 if self.both_ways else 1
        return math.ceil(self.concurrent * directions * (self.window + 1) * self.chunk_bytes)


def load_settings(path: Path) -> ShuffleSettings:
    """Read a YAML file; an empty one means the defaults. Raises ConfigError as `read_model` does."""
    return read_model(path, ShuffleSettings)
