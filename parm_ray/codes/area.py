"""Area reduction of images, bit-equal to OpenCV's INTER_AREA and faster where OpenCV is slow.

OpenCV has a fast path for halving both sides; halving the height alone takes its general path, many
times slower. Halving rows is three passes of byte logic over contiguous memory.
"""

from __future__ import annotations

import cv2
import numpy as np

from parm_ray.codes.shape import Array

# Dtypes that OpenCV reduces itself; others go through a float wide enough to be exact.
_CV_DTYPES = frozenset(map(np.dtype, (np.uint8, np.uint16, np.int16, np.float32, np.float64)))
_CV_CHANNELS = 4


def reduce_into(out: Array, images: Array) -> None:
    """Write images `[b, H, W, C]` reduced by area into `out` `[b, h, w, C]`, h <= H and w <= W."""
    (height, width), (h, w) = images.shape[1:3], out.shape[1:3]
    if (h, w) == (height, width):
        out[...] = images
    elif images.dtype == np.uint8 and w == width and 2 * h == height:
        _halve_rows(out, images)
    else:
        for target, image in zip(out, images, strict=True):
            target[...] = _resize(image, w, h)


def _halve_rows(out: Array, images: Array) -> None:
    """(a + b) / 2 of each pair of rows, ties to even, which is how OpenCV rounds.

    a + b = 2 (a & b) + (a ^ b): the floor of the half is (a & b) + (a ^ b) / 2, never above 255, and
    the half is a tie where a ^ b is odd.
    """
    upper, lower = images[:, 0::2], images[:, 1::2]
    odd = upper ^ lower
    half = np.right_shift(odd, 1)
    half += upper & lower
    odd &= half
    odd &= 1
    np.add(half, odd, out=out)


def _resize(image: Array, w: int, h: int) -> Array:
    """One image `[H, W, C]` by OpenCV, whatever its dtype and number of channels."""
    if image.dtype not in _CV_DTYPES:
        wide = image.astype(np.float64 if image.dtype.itemsize > 2 else np.float32)
        reduced = _resize(wide, w, h)
        return (np.rint(reduced) if image.dtype.kind in "ui" else reduced).astype(image.dtype)
    image = np.ascontiguousarray(image)
    parts = [
        cv2.resize(
            np.ascontiguousarray(image[:, :, c : c + _CV_CHANNELS]), (w, h), interpolation=cv2.INTER_AREA
        ).reshape(h, w, -1)
        for c in range(0, image.shape[2], _CV_CHANNELS)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)
