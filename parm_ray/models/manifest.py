"""The artefact manifest: one JSON file that says what a model is and how to feed it.

An artefact is a directory with `manifest.json` and, usually, `weights.safetensors`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from parm_ray.core.errors import ConfigError

FORMAT: Final = 1
FILE_NAME = "manifest.json"

DType = Literal["uint8", "uint16", "uint32", "int32", "int64", "float16", "float32", "float64"]
Dims = tuple[Annotated[int, Field(ge=1)], ...]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TensorSpec(_Strict):
    """A named tensor. `shape` is per query, without the batch dimension."""

    name: str = Field(min_length=1)
    shape: Dims
    dtype: DType

    @property
    def numpy_dtype(self) -> np.dtype:
        """The numpy dtype object."""
        return np.dtype(self.dtype)


class InputSpec(TensorSpec):
    """What the model takes. `layout` says where an image's channels are; None = not an image."""

    layout: Literal["HWC", "CHW"] | None = None

    @model_validator(mode="after")
    def _image_has_three_dims(self) -> InputSpec:
        if self.layout is not None and len(self.shape) != 3:
            raise ValueError(f"layout {self.layout} needs a shape of 3 dims, got {self.shape}")
        return self


class Preprocessing(_Strict):
    """x -> (x - mean) / std, in the input's own units, per channel (or one value for all).

    `fill` is the raw input value that means "no query here"; None = `mean` rounded to the input dtype.
    `channels_first`: give the net CHW although queries come as HWC.
    """

    mean: tuple[float, ...] = (0.0,)
    std: tuple[Annotated[float, Field(gt=0)], ...] = (1.0,)
    fill: tuple[float, ...] | None = None
    channels_first: bool = True


class ModelSource(_Strict):
    """Where the network comes from.

    loader "torch": `factory` ("package.module:callable" returning an nn.Module) or a `torchvision`
    model name; weights are a safetensors state dict. loader "python": `factory` returns a
    Predictor and is called as `factory(manifest, directory, device, **kwargs)`.
    """

    loader: Literal["torch", "python"] = "torch"
    factory: str | None = Field(default=None, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    torchvision: str | None = None
    kwargs: dict[str, object] = Field(default_factory=dict)
    weights: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> ModelSource:
        if (self.factory is None) == (self.torchvision is None):
            raise ValueError("give exactly one of `factory` and `torchvision`")
        if self.loader == "python" and self.torchvision is not None:
            raise ValueError("loader python takes a `factory`")
        return self


class CodeSpec(_Strict):
    """Which code a parity model was trained for, and which parity row it answers."""

    encoder: str
    decoder: str
    k: Annotated[int, Field(ge=1)]
    r: Annotated[int, Field(ge=1)] = 1
    row: Annotated[int, Field(ge=0)] = 0


class Manifest(_Strict):
    """The whole artefact. `code` is None for a deployed model and set for a parity model.

    For a parity model, `input` is the *query's* spec (not the parity's, which the code implies),
    and `output` the *deployed* model's output spec; mean and std are the data's own.
    """

    format: Literal[1] = FORMAT
    name: str = Field(min_length=1)
    version: str = "1"
    input: InputSpec
    output: TensorSpec
    preprocessing: Preprocessing = Preprocessing()
    model: ModelSource
    code: CodeSpec | None = None
    labels: tuple[str, ...] | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
    provenance: dict[str, str] = Field(default_factory=dict)


def load_manifest(directory: str | Path) -> Manifest:
    """Read and check `directory/manifest.json`. Raises ConfigError with the path and the key."""
    path = Path(directory) / FILE_NAME
    try:
        return Manifest.model_validate(json.loads(path.read_text()))
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the artefact manifest ({error.strerror})") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: not JSON ({error})") from None
    except ValidationError as error:
        lines = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ConfigError(f"{path}: {lines}") from None


def save_manifest(manifest: Manifest, directory: str | Path) -> Path:
    """Write `manifest.json` into `directory` (made if missing) and return its path."""
    path = Path(directory) / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(manifest.model_dump_json(indent=2, exclude_defaults=False) + "\n")
    return path
