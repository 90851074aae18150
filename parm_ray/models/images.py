"""JPEG and PNG files to model inputs, with OpenCV. Size is read before anything is decoded."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from parm_ray.core import InvalidInput
from parm_ray.core.errors import PayloadTooLarge
from parm_ray.models.manifest import InputSpec

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
JPEG_MAGIC = b"\xff\xd8\xff"
# A progressive file of a few kB can ask for thousands of passes over all pixels.
MAX_SCANS = 100
# Segments of a JPEG or chunks of a PNG.
MAX_PARTS = 100_000
# Chunks that a PNG decoder may skip; it writes a warning for each that it cannot read.
MAX_ANCILLARY = 1_000

# Start-of-frame markers, which carry the size: all of C0..CF but DHT, JPG and DAC.
_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SOI, _EOI, _SOS = 0xD8, 0xD9, 0xDA
# A marker that means something: not a stuffed FF, a fill byte, or one that stands alone inside a scan.
_MARKER = re.compile(rb"\xff([^\x00\x01\xd0-\xd7\xff])")


def decode_image(
    data: bytes, spec: InputSpec, max_bytes: int, max_pixels: int, field: str = "image"
) -> NDArray[np.generic]:
    """Return the picture as one query of `spec`, see `decode_images`."""
    return decode_images({field: data}, spec, max_bytes, max_pixels)[0]


def decode_images(
    files: Mapping[str, bytes], spec: InputSpec, max_bytes: int, max_pixels: int
) -> NDArray[np.generic]:
    """Return `[n, *input]`: RGB or grey pictures, resized to the height and width of `spec`.

    files: by the name to blame in errors. Orientation in a file's EXIF data is applied; transparency
    is dropped; 16-bit files lose their low bits; what follows a file's end marker is ignored. Raises
    PayloadTooLarge for a file above `max_bytes` or for more than `max_pixels` in all files together
    (told from their headers, before any is decoded), InvalidInput for anything that is not a whole
    JPEG or PNG.
    """
    pixels = 0
    for field, data in files.items():
        if spec.layout is None:
            legal = f"a tensor {spec.dtype}{list(spec.shape)}; this is no image model"
            raise InvalidInput(field, legal, "an image file")
        channels = spec.shape[2] if spec.layout == "HWC" else spec.shape[0]
        if channels not in (1, 3):
            raise InvalidInput(field, f"a tensor: the model takes {channels} channels", "an image file")
        if len(data) > max_bytes:
            raise PayloadTooLarge(field, f"a file of at most {max_bytes} bytes", f"{len(data)} bytes")
        width, height = image_size(data, field)
        if width < 1 or height < 1:
            raise InvalidInput(field, "a picture with pixels", f"{width} x {height}")
        pixels += width * height
        if pixels > max_pixels:
            before = f" after {pixels - width * height} pixels" if pixels > width * height else ""
            raise PayloadTooLarge(
                field, f"at most {max_pixels} pixels in all files", f"{width} x {height}{before}"
            )
    return np.stack([_fit(_decode(data, channels, field), spec) for field, data in files.items()])


def _decode(data: bytes, channels: int, field: str) -> NDArray[Any]:
    flag = cv2.IMREAD_GRAYSCALE if channels == 1 else cv2.IMREAD_COLOR
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flag)
    except cv2.error:
        image = None
    if image is None:
        raise InvalidInput(field, "a JPEG or PNG that decodes", "a damaged file")
    if channels == 3:
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    return image.reshape(*image.shape[:2], channels)


def _fit(image: NDArray[Any], spec: InputSpec) -> NDArray[np.generic]:
    h, w = spec.shape[:2] if spec.layout == "HWC" else spec.shape[1:]
    if image.shape[:2] != (h, w):
        shrinking = h * w < image.shape[0] * image.shape[1]
        how = cv2.INTER_AREA if shrinking else cv2.INTER_LINEAR
        image = cv2.resize(image, (w, h), interpolation=how).reshape(h, w, -1)
    if spec.layout == "CHW":
        image = image.transpose(2, 0, 1)
    return np.ascontiguousarray(image, spec.numpy_dtype)


def image_size(data: bytes, field: str = "image") -> tuple[int, int]:
    """Return (width, height) and make sure that the file is whole. Raises InvalidInput."""
    if data.startswith(PNG_MAGIC):
        return _png_size(data, field)
    if data.startswith(JPEG_MAGIC):
        return _jpeg_size(data, field)
    raise InvalidInput(field, "a JPEG or PNG file", f"bytes that begin with {data[:4].hex() or 'nothing'}")


def _png_size(data: bytes, field: str) -> tuple[int, int]:
    """Walk the chunks to IEND: lengths and checksums must hold, or the decoder would guess."""
    at, size, ancillary = len(PNG_MAGIC), (0, 0), 0
    for part in range(MAX_PARTS):
        if at + 12 > len(data):
            raise InvalidInput(field, "a whole PNG", "a truncated file")
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            raise InvalidInput(field, "a whole PNG", "a truncated file")
        (checksum,) = struct.unpack_from(">I", data, end - 4)
        if zlib.crc32(data[at + 4 : end - 4]) != checksum:
            raise InvalidInput(field, "a PNG with valid checksums", f"a damaged {kind!r} chunk")
        if part == 0:
            if kind != b"IHDR" or length != 13:
                raise InvalidInput(field, "a PNG that begins with IHDR", repr(kind))
            size = struct.unpack_from(">II", data, at + 8)
        if kind == b"IEND":
            return size
        ancillary += kind[0] >= ord("a")
        if ancillary > MAX_ANCILLARY:
            raise InvalidInput(field, f"a PNG of at most {MAX_ANCILLARY} ancillary chunks", "more")
        at = end
    raise InvalidInput(field, f"a PNG of at most {MAX_PARTS} chunks", "more")


def _jpeg_size(data: bytes, field: str) -> tuple[int, int]:
    """Walk the segments and scans to the end marker; what a camera appended after it is ignored.

    The walk cannot be replaced by a search for the end marker, which embedded thumbnails have too.
    """
    at, size, scans = 2, None, 0
    for _ in range(MAX_PARTS):
        found = _MARKER.search(data, at)
        if found is None:
            raise InvalidInput(field, "a whole JPEG", "a truncated file (no end marker)")
        marker, at = found[1][0], found.end()
        if marker == _EOI:
            if size is None:
                raise InvalidInput(field, "a JPEG with a frame header", "a damaged file")
            return size
        if marker == _SOI or (marker == _SOS and size is None):
            raise InvalidInput(field, "a JPEG with its parts in order", "a damaged file")
        if at + 7 > len(data):
            raise InvalidInput(field, "a whole JPEG", "a truncated file (no end marker)")
        (length,) = struct.unpack_from(">H", data, at)
        if length < 2:
            raise InvalidInput(field, "a JPEG segment of at least 2 bytes", length)
        if marker in _SOF and size is None:
            height, width = struct.unpack_from(">HH", data, at + 3)
            size = (width, height)
        scans += marker == _SOS
        if scans > MAX_SCANS:
            raise InvalidInput(field, f"a JPEG of at most {MAX_SCANS} scans", "more")
        at += length
    raise InvalidInput(field, f"a JPEG of at most {MAX_PARTS} segments", "more")
