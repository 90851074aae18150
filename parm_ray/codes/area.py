"""Area reduction of images: bit-equal to OpenCV's INTER_AREA of each channel, faster where that is slow.

OpenCV has a fast path for halving both sides; halving the height alone takes its general path, an
order of magnitude slower per pixel. Halving rows is a few passes of byte logic over contiguous memory.
"""

from __future__ import annotations

import cv2
import numpy as np

from parm_ray.codes.base import Array

# Dtypes that OpenCV reduces itself; others go through a float that holds all their values.
_CV_DTYPES = frozenset(map(np.dtype, (np.uint8, np.uint16, np.int16, np.float32, np.float64)))

# Rows are halved in stretches of this many bytes, so that what lies between the passes stays in cache
# and is no memory fresh from the operating system: a ninth of the time for an image of 1080 rows.
_BLOCK_BYTES = 1 << 17


def reduce_into(out: Array, images: Array) -> None:
    """Write images `[b, H, W, C]` reduced by area into `out` `[b, h, w, C]`, h <= H and w <= W.

    out: of the images' dtype; a view of rows and columns of a C-contiguous array will do.
    """
    (height, width), (h, w) = images.shape[1:3], out.shape[1:3]
    if (h, w) == (height, width):
        out[...] = images
    elif images.dtype == np.uint8 and w == width and 2 * h == height:
        _halve_rows(out, images)
    else:
        for target, image in zip(out, images, strict=True):
            _resize_into(target, image)


def _halve_rows(out: Array, images: Array) -> None:
    """(a + b) / 2 of each pair of rows, ties to even, which is how OpenCV rounds.

    a + b = 2 (a & b) + (a ^ b): the floor of the half is (a & b) + (a ^ b) / 2, never above 255, and
    the half is a tie where a ^ b is odd.
    """
    height = out.shape[1]
    step = max(1, _BLOCK_BYTES // max(1, out[:, 0].size))
    for top in range(0, height, step):
        end = min(top + step, height)
        upper, lower = images[:, 2 * top : 2 * end : 2], images[:, 2 * top + 1 : 2 * end : 2]
        odd = upper ^ lower
        half = np.right_shift(odd, 1)
        half += upper & lower
        odd &= half
        np.add(half, np.bitwise_and(odd, 1, out=odd), out=out[:, top:end])


def _resize_into(target: Array, image: Array) -> None:
    """Reduce one image `[H, W, C]` by OpenCV, whatever its dtype and number of channels."""
    if image.dtype not in _CV_DTYPES:
        wide = np.float64 if image.dtype.itemsize > 2 else np.float32
        reduced = np.empty(target.shape, wide)
        _resize_into(reduced, image.astype(wide))
        if image.dtype.kind in "ui" and image.size:
            # OpenCV's weights are float32: the mean of many large pixels may leave their range.
            np.rint(reduced, out=reduced).clip(image.min(), image.max(), out=reduced)
        target[...] = reduced
        return
    size, channels = target.shape[1::-1], image.shape[2]
    start = 0
    while start < channels:
        # OpenCV takes up to four channels, and two it rounds unlike one, three and four.
        count = next(n for n in (4, 3, 1) if n <= channels - start)
        if count == channels:
            part, into = image, target
        else:
            part = np.ascontiguousarray(image[..., start : start + count])
            into = np.empty((*target.shape[:2], count), target.dtype)
        result = cv2.resize(part, size, into, interpolation=cv2.INTER_AREA)
        if result is not target:
            target[..., start : start + count] = result.reshape(into.shape)
        start += count
