"""Augmentation, done to a whole batch at once."""

from __future__ import annotations

import torch
from torch import Tensor


def augment(images: Tensor, shift: int, flip: bool, generator: torch.Generator) -> Tensor:
    """Shift each image by up to `shift` pixels either way and, if `flip`, mirror half of them."""
    return random_flip(random_shift(images, shift, generator), flip, generator)


def random_shift(images: Tensor, pixels: int, generator: torch.Generator) -> Tensor:
    """Move each of `[n, H, W, C]` by its own whole number of pixels in -pixels..pixels, both ways.

    What moves in is 0, the background of the data sets here. Returns the images' dtype and shape.
    """
    if pixels == 0:
        return images
    count, height, width, _ = images.shape
    padded = torch.nn.functional.pad(images, (0, 0, pixels, pixels, pixels, pixels))
    offsets = torch.randint(0, 2 * pixels + 1, (2, count, 1), generator=generator)
    rows = (offsets[0] + torch.arange(height))[:, :, None]
    columns = (offsets[1] + torch.arange(width))[:, None, :]
    return padded[torch.arange(count)[:, None, None], rows, columns]


def random_flip(images: Tensor, wanted: bool, generator: torch.Generator) -> Tensor:
    """Mirror each of `[n, H, W, C]` left to right with probability 1/2, if wanted."""
    if not wanted:
        return images
    chosen = torch.rand(len(images), generator=generator) < 0.5
    return torch.where(chosen[:, None, None, None], images.flip(2), images)
