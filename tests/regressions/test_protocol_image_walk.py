"""Image files whose size or end was once read from the wrong place."""

import struct

import cv2
import numpy as np
import pytest

from parm_ray.core.errors import InvalidInput
from parm_ray.models.images import image_size
from tests.support.image_files import JPEGS, THUMBNAIL, WITH_THUMBNAIL, segment

BASELINE = JPEGS["baseline"]


def frame(width, height):
    return segment(0xC0, struct.pack(">BHHB", 8, height, width, 1) + bytes([1, 0x11, 0]))


def test_a_small_size_hidden_where_no_decoder_looks_is_not_the_size():
    # Decoders read FF 00 as garbage and go on to the next marker. Taken for a segment of 6 bytes, it
    # leads over the head of the comment into it, to a small size that hides the real one.
    hidden = frame(4, 4)
    data = BASELINE[:2] + b"\xff\x00" + struct.pack(">H", 6) + segment(0xFE, hidden) + BASELINE[2:]
    assert data[2 + 2 + 6 :].startswith(hidden)
    assert image_size(data) == (32, 24)


@pytest.mark.parametrize("prefix", [b"\xff\x00", b"\xff\x01", b"\xff\xd0", b"\xff\xff", b"abc"])
def test_what_decoders_skip_between_segments_is_skipped(prefix):
    (length,) = struct.unpack_from(">H", BASELINE, 4)
    data = BASELINE[: 4 + length] + prefix + BASELINE[4 + length :]
    assert image_size(data) == (32, 24)
    assert cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR).shape == (24, 32, 3)


def test_the_end_of_a_thumbnail_is_not_the_end_of_the_file():
    end = WITH_THUMBNAIL.index(THUMBNAIL) + len(THUMBNAIL)
    for cut in (end, end + 1, len(WITH_THUMBNAIL) - 2, len(WITH_THUMBNAIL) - 1):
        with pytest.raises(InvalidInput, match="truncated"):
            image_size(WITH_THUMBNAIL[:cut])


def test_a_film_after_the_picture_does_not_make_it_truncated():
    # Phones append a film of several MB to a JPEG.
    assert image_size(BASELINE + bytes(3_000_000)) == (32, 24)
    assert image_size(BASELINE + b"\xff\xd8\xff" * 50_000) == (32, 24)
