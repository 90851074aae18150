"""The encoders on torch tensors: what `parm_ray.codes` does to arrays, for thousands of groups at once.

Layout, weights and cells come from the numpy encoders themselves, and a test holds the two equal, so
a parity model trains on the very pixels that the front end will send it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from parm_ray.codes import cells
from parm_ray.codes.concatenation import ConcatEncoder
from parm_ray.codes.linear import LinearEncoder
from parm_ray.core.errors import ConfigError
from parm_ray.models.loading import code_of
from parm_ray.models.manifest import Manifest


class TorchEncoder:
    """Encodes for the row of the code that a parity model's manifest names.

    fill: raw, `[C]` or a scalar; it is what an absent query contributes, and what the cells of a
    concatenation hold that no slot owns. Integer queries give whole numbers, as the numpy encoders
    do. Raises ConfigError for an encoder that has no twin here.
    """

    def __init__(self, manifest: Manifest, fill: Tensor | float = 0.0) -> None:
        code = code_of(manifest)
        assert manifest.code is not None
        self._fill = fill
        self._whole = manifest.input.numpy_dtype.kind in "ui"
        self._weights: Tensor | None = None
        self._channels_first = False
        if isinstance(code.encoder, LinearEncoder):
            self._weights = torch.tensor(code.encoder.weights[manifest.code.row], dtype=torch.float32)
        elif isinstance(code.encoder, ConcatEncoder):
            self._channels_first = code.encoder.layout == "CHW"
        else:
            raise ConfigError(f"encoder: expected sum, weighted or concat, got {manifest.code.encoder!r}")

    def encode(self, slots: Tensor) -> Tensor:
        """Map float32 `[k, g, *shape]` in raw units, absent queries already the fill, to `[g, *shape]`."""
        if self._weights is not None:
            return torch.tensordot(self._weights.to(slots.device), slots, dims=1)
        if self._channels_first:
            return self._concatenate(slots.movedim(2, -1)).movedim(-1, 1)
        return self._concatenate(slots)

    def _concatenate(self, slots: Tensor) -> Tensor:
        """Reduce images `[k, g, H, W, C]` by area into the cells of one, `[g, H, W, C]`."""
        k, _, height, width, _ = slots.shape
        parity = torch.empty_like(slots[0])
        parity[...] = torch.as_tensor(self._fill, dtype=slots.dtype, device=slots.device)
        for images, cell in zip(slots, cells(k, height, width), strict=False):
            rows, columns = cell.bottom - cell.top, cell.right - cell.left
            reduced = reduce_axis(reduce_axis(images, 1, rows), 2, columns)
            if self._whole:
                # OpenCV's fast path for halving both sides rounds ties up, its others to even.
                halved = (2 * rows, 2 * columns) == (height, width)
                reduced = (reduced + 0.5).floor() if halved else reduced.round()
            parity[:, cell.top : cell.bottom, cell.left : cell.right] = reduced
        return parity


def reduce_axis(images: Tensor, axis: int, size: int) -> Tensor:
    """Reduce one axis to `size` by area: each new value is the mean of the stretch that it covers."""
    old = images.shape[axis]
    if size == old:
        return images
    if old % size == 0:
        return images.unflatten(axis, (size, old // size)).mean(axis + 1)
    matrix = area_matrix(old, size).to(images)
    return torch.tensordot(images, matrix, dims=([axis], [1])).movedim(-1, axis)


def area_matrix(old: int, new: int) -> Tensor:
    """Return float64 `[new, old]`: the share of old pixel j in new pixel i; rows sum to 1."""
    edges = torch.arange(new + 1, dtype=torch.float64) * old / new
    starts = torch.arange(old, dtype=torch.float64)
    upper = torch.minimum(edges[1:, None], starts + 1)
    lower = torch.maximum(edges[:-1, None], starts)
    return (upper - lower).clamp(min=0) * new / old


def target_coefficients(manifest: Manifest) -> Tensor | None:
    """Return float32 `[k]`, the c_i of the target sum_i c_i F(X_i); None for a slot decoder.

    They are read off the decoder: its target for one-hot outputs is its coefficients.
    """
    assert manifest.code is not None
    if manifest.code.decoder == "slot":
        return None
    one_hot = list(np.eye(manifest.code.k, dtype=np.float32)[:, None, :])
    return torch.from_numpy(code_of(manifest).target(manifest.code.row, one_hot)[0].astype(np.float32))
