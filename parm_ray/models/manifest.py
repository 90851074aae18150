"""The artefact manifest: one JSON file that says what a model is and how to feed it.

An artefact is a directory with `manifest.json` and, usually, `weights.safetensors`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from parm_ray.core.errors import ConfigError

FORMAT: Final = 1
FILE_NAME = "manifest.json"

DType = Literal["uint8", "uint16", "uint32", "int32", "int64", "float16", "float32", "float64"]
Dims = tuple[Annotated[int, Field(ge=1)], ...]
Finite = Annotated[float, Field(allow_inf_nan=False)]
# Goes into URL paths, log lines and metric labels.
Label = Annotated[str, Field(pattern=r"^[\w.+-]+$")]


class _Strict(BaseModel):
    # NaN and infinities (of a metric) are written as such: null could not be read back.
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


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

    mean: tuple[Finite, ...] = (0.0,)
    std: tuple[Annotated[Finite, Field(gt=0)], ...] = (1.0,)
    fill: tuple[Finite, ...] | None = None
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
    """Which code a parity model was trained for, and which parity row it answers.

    `weights`: the file of a code that is itself trained (`learned`), inside the artefact's directory;
    `load_manifest` makes its path whole.
    """

    encoder: str
    decoder: str
    k: Annotated[int, Field(ge=1)]
    r: Annotated[int, Field(ge=1)] = 1
    row: Annotated[int, Field(ge=0)] = 0
    weights: str | None = None

    @model_validator(mode="after")
    def _row_is_one_of_r(self) -> CodeSpec:
        if self.row >= self.r:
            raise ValueError(f"row: expected 0 to {self.r - 1} (r = {self.r}), got {self.row}")
        return self


class Manifest(_Strict):
    """The whole artefact. `code` is None for a deployed model and set for a parity model.

    For a parity model, `input` is the *query's* spec (not the parity's, which the code implies),
    and `output` the *deployed* model's output spec; mean and std are the data's own.
    """

    format: Literal[1] = FORMAT
    name: Label
    version: Label = "1"
    input: InputSpec
    output: TensorSpec
    preprocessing: Preprocessing = Preprocessing()
    model: ModelSource
    code: CodeSpec | None = None
    labels: tuple[str, ...] | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
    provenance: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fill_is_a_query(self) -> Manifest:
        fill, spec = self.preprocessing.fill, self.input
        if fill is None:
            return self
        channels = spec.shape[0] if spec.layout == "CHW" else (1, *spec.shape)[-1]
        if len(fill) not in (1, channels):
            raise ValueError(f"preprocessing.fill: expected 1 or {channels} values, got {len(fill)}")
        if spec.numpy_dtype.kind in "iu":
            info = np.iinfo(spec.numpy_dtype)
            if not all(info.min <= value <= info.max for value in fill):
                legal = f"{spec.dtype} values from {info.min} to {info.max}"
                raise ValueError(f"preprocessing.fill: expected {legal}, got {fill}")
        return self


def load_manifest(directory: str | Path) -> Manifest:
    """Read and check `directory/manifest.json`. Raises ConfigError with the path and the key."""
    path = Path(directory) / FILE_NAME
    try:
        return _with_whole_paths(Manifest.model_validate(json.loads(path.read_text(encoding="utf-8"))), path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the artefact manifest ({error.strerror})") from None
    except ValidationError as error:
        lines = (": ".join((".".join(map(str, e["loc"])) or "manifest", e["msg"])) for e in error.errors())
        raise ConfigError(f"{path}: {'; '.join(lines)}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON in UTF-8 ({error})") from None


def save_manifest(manifest: Manifest, directory: str | Path) -> Path:
    """Write `manifest.json` into `directory` (made if missing) and return its path."""
    path = Path(directory) / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    code = manifest.code
    if code is not None and code.weights is not None:
        code = code.model_copy(update={"weights": Path(code.weights).name})
        manifest = manifest.model_copy(update={"code": code})
    # Whole or not at all: others may read the directory at any time.
    fresh = path.with_name(f"{FILE_NAME}.{os.getpid()}")
    fresh.write_text(manifest.model_dump_json(indent=2, exclude_defaults=False) + "\n", encoding="utf-8")
    os.replace(fresh, path)
    return path


def _with_whole_paths(manifest: Manifest, path: Path) -> Manifest:
    code = manifest.code
    if code is None or code.weights is None:
        return manifest
    if Path(code.weights).name != code.weights:
        raise ConfigError(
            f"{path}: code.weights: expected the name of a file beside it, got {code.weights!r}"
        )
    whole = code.model_copy(update={"weights": str(path.parent / code.weights)})
    return manifest.model_copy(update={"code": whole})
