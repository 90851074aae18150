"""JPEG and PNG files to model inputs, with OpenCV. Size is read before anything is decoded."""

from __future__ import annotations

import struct
import zlib

import cv2
import numpy as np
from numpy.typing import NDArray

from parm_ray.core import InvalidInput
from parm_ray.core.errors import PayloadTooLarge
from parm_ray.models.manifest import InputSpec

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
JPEG_MAGIC = b"\xff\xd8\xff"
# Start-of-frame markers, which carry the size: all of C0..CF but DHT, JPG and DAC.
_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_STANDALONE = frozenset({0x01, *range(0xD0, 0xD8)})


def decode_image(
    data: bytes, spec: InputSpec, max_bytes: int, max_pixels: int, field: str = "image"
) -> NDArray[np.generic]:
    """Return the picture as one query of `spec` (RGB or grey, resized to its height and width).

    Orientation in the file's EXIF data is applied; transparency is dropped; 16-bit files lose
    their low bits. Raises PayloadTooLarge above `max_bytes` or `max_pixels` (told from the file's
    header, before decoding), InvalidInput for anything that is not a whole JPEG or PNG.
    """
    if spec.layout is None:
        raise InvalidInput(field, f"a tensor {spec.dtype}{list(spec.shape)}; this is no image model", "bytes")
    if len(data) > max_bytes:
        raise PayloadTooLarge(field, f"a file of at most {max_bytes} bytes", f"{len(data)} bytes")
    width, height = image_size(data, field)
    if width < 1 or height < 1:
        raise InvalidInput(field, "a picture with pixels", f"{width} x {height}")
    if width * height > max_pixels:
        raise PayloadTooLarge(field, f"at most {max_pixels} pixels", f"{width} x {height}")
    channels = spec.shape[2] if spec.layout == "HWC" else spec.shape[0]
    if channels not in (1, 3):
        raise InvalidInput(field, f"a tensor: the model takes {channels} channels", "an image file")
    return _fit(_decode(data, channels, field), spec)


def _decode(data: bytes, channels: int, field: str) -> NDArray[np.uint8]:
    flag = cv2.IMREAD_GRAYSCALE if channels == 1 else cv2.IMREAD_COLOR
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flag)
    except cv2.error as error:
        raise InvalidInput(field, "a JPEG or PNG that decodes", str(error).splitlines()[0]) from None
    if image is None:
        raise InvalidInput(field, "a JPEG or PNG that decodes", "a damaged file")
    if channels == 3:
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    return image.reshape(*image.shape[:2], channels)


def _fit(image: NDArray[np.uint8], spec: InputSpec) -> NDArray[np.generic]:
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
    at, size = len(PNG_MAGIC), (0, 0)
    first = True
    while True:
        if at + 12 > len(data):
            raise InvalidInput(field, "a whole PNG", "a truncated file")
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            raise InvalidInput(field, "a whole PNG", "a truncated file")
        (checksum,) = struct.unpack_from(">I", data, end - 4)
        if zlib.crc32(data[at + 4 : end - 4]) != checksum:
            raise InvalidInput(field, "a PNG with valid checksums", f"a damaged {kind!r} chunk")
        if first:
            if kind != b"IHDR" or length != 13:
                raise InvalidInput(field, "a PNG that begins with IHDR", repr(kind))
            size = struct.unpack_from(">II", data, at + 8)
            first = False
        if kind == b"IEND":
            return size
        at = end


def _jpeg_size(data: bytes, field: str) -> tuple[int, int]:
    """Walk the segments to the frame header, and look for the end marker."""
    # Some cameras pad the file; what follows the last end marker is theirs.
    if data.rfind(b"\xff\xd9") < len(data) - 64 * 1024 or b"\xff\xd9" not in data:
        raise InvalidInput(field, "a whole JPEG", "a truncated file (no end marker)")
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            break
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker in _STANDALONE:
            at += 2
            continue
        (length,) = struct.unpack_from(">H", data, at + 2)
        if marker in _SOF:
            if at + 9 > len(data):
                break
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        if marker == 0xD9 or length < 2:
            break
        at += 2 + length
    raise InvalidInput(field, "a JPEG with a frame header", "a damaged file")
