"""Queries that a running deployed model has answered, read from a directory, to train on without labels.

queries-*.npz    `inputs`  raw, [n, *shape], of the deployed manifest's input dtype
                 `outputs` float32 [n, *output], what the deployed model answered; may be missing
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parm_ray.core.errors import ConfigError
from parm_ray.models.manifest import Manifest

PATTERN = "queries-*.npz"


@dataclass(frozen=True)
class LoggedQueries:
    """inputs: raw `[n, *shape]`; outputs: float32 `[n, *output]`, the deployed model's answers."""

    inputs: Tensor
    outputs: Tensor


def load_logged(directory: Path, manifest: Manifest, answer: Callable[[Tensor], Tensor]) -> LoggedQueries:
    """Read every file of a record, in the order of their names.

    manifest: the deployed model's. answer: maps raw `[n, *shape]` to float32 `[n, *output]` where a
    file has no outputs. Raises ConfigError naming the file and the array that is wrong, or the
    directory if it has no such files.
    """
    inputs, outputs = [], []
    for path in _files(directory):
        arrays = _read(path)
        if "inputs" not in arrays:
            raise ConfigError(f"{path}: expected an array `inputs`, got {', '.join(arrays) or 'none'}")
        queries = arrays["inputs"]
        _check(path, "inputs", queries, manifest.input.shape, manifest.input.dtype)
        inputs.append(torch.from_numpy(queries))
        if "outputs" not in arrays:
            outputs.append(answer(inputs[-1]))
            continue
        answers = arrays["outputs"]
        _check(path, "outputs", answers, manifest.output.shape, "float32")
        if len(answers) != len(queries):
            rows = f"{len(queries)} rows, one an input"
            raise ConfigError(f"{path}: outputs: expected {rows}, got {len(answers)}")
        if not np.isfinite(answers).all():
            raise ConfigError(f"{path}: outputs: expected finite numbers, got nan or inf")
        outputs.append(torch.from_numpy(answers))
    return LoggedQueries(torch.cat(inputs), torch.cat(outputs))


def logged_digest(directory: Path) -> str:
    """Return 16 hex digits that change with any file of the record. Raises ConfigError if it has none."""
    digest = hashlib.sha256()
    for path in _files(directory):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _files(directory: Path) -> list[Path]:
    files = sorted(directory.glob(PATTERN))
    if not files:
        raise ConfigError(f"logged: {directory} has no files {PATTERN}")
    return files


def _read(path: Path) -> dict[str, NDArray[np.generic]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise ConfigError(f"{path}: cannot be read as an .npz of plain arrays ({error})") from None


def _check(path: Path, name: str, array: NDArray[np.generic], shape: tuple[int, ...], dtype: str) -> None:
    if array.dtype != np.dtype(dtype):
        raise ConfigError(f"{path}: {name}: expected dtype {dtype}, got {array.dtype}")
    if array.ndim != len(shape) + 1 or array.shape[1:] != shape:
        dims = ", ".join(map(str, shape))
        raise ConfigError(f"{path}: {name}: expected shape [n, {dims}], got {array.shape}")
