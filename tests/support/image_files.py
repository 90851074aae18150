"""Small JPEG and PNG files, made byte by byte where it matters."""

import struct
import zlib

import cv2
import numpy as np


def encode(image, kind=".png", *options):
    ok, data = cv2.imencode(kind, image, options)
    assert ok
    return data.tobytes()


def chunk(kind, data=b""):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(w, h, depth, color, rows, before=b"", packed=None):
    header = struct.pack(">IIBBBBB", w, h, depth, color, 0, 0, 0)
    data = zlib.compress(rows) if packed is None else packed
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + chunk(b"IDAT", data) + chunk(b"IEND")


def segment(marker, data):
    return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data


def smooth(h=24, w=32):
    noise = np.random.default_rng(7).integers(0, 256, (h, w, 3), np.uint8)
    return cv2.GaussianBlur(noise, (5, 5), 0)


JPEGS = {
    "baseline": encode(smooth(), ".jpg"),
    "progressive": encode(smooth(), ".jpg", cv2.IMWRITE_JPEG_PROGRESSIVE, 1),
    "restarts": encode(smooth(), ".jpg", cv2.IMWRITE_JPEG_RST_INTERVAL, 1),
    "grey": encode(smooth()[..., 0], ".jpg"),
}
PNG = encode(smooth())
# A whole small JPEG inside the big one, as every camera writes it: its end marker is not the file's.
THUMBNAIL = encode(cv2.resize(smooth(), (8, 6)), ".jpg")
WITH_THUMBNAIL = JPEGS["baseline"][:2] + segment(0xE1, b"Exif\0\0" + THUMBNAIL) + JPEGS["baseline"][2:]
FILES = {**JPEGS, "thumbnail": WITH_THUMBNAIL, "png": PNG}
