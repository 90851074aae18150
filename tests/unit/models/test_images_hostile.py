"""Truncated, damaged and hostile image files are refused, the costly ones before any pixel is decoded."""

import contextlib
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parm_ray.core.errors import InvalidInput, PayloadTooLarge
from parm_ray.models.images import MAX_ANCILLARY, MAX_SCANS, decode_image, decode_images, image_size
from parm_ray.models.manifest import InputSpec
from tests.support.image_files import FILES, JPEGS, PNG, chunk, png, segment

BYTES, PIXELS = 1 << 24, 1 << 20


def spec(h, w, channels=3, layout="HWC", dtype="uint8"):
    shape = (h, w, channels) if layout == "HWC" else (channels, h, w)
    return InputSpec(name="image", shape=shape, dtype=dtype, layout=layout)


def decode(data, like, max_bytes=BYTES, max_pixels=PIXELS):
    return decode_image(data, like, max_bytes, max_pixels)


@pytest.mark.parametrize("name", FILES)
def test_every_truncation_is_refused_before_the_decoder_sees_it(name):
    # By `image_size`, which runs no decoder: some versions of OpenCV fill what is missing with grey.
    data = FILES[name]
    for length in range(len(data)):
        with pytest.raises(InvalidInput):
            image_size(data[:length])
    assert decode(data, spec(24, 32)).shape == (24, 32, 3)


@pytest.mark.parametrize("name", FILES)
def test_what_follows_the_end_of_a_file_is_ignored(name):
    data = FILES[name]
    np.testing.assert_array_equal(decode(data + b"movie" * 40_000, spec(24, 32)), decode(data, spec(24, 32)))


def test_a_png_with_a_changed_byte_is_refused():
    for at in range(8, len(PNG), 13):
        damaged = bytearray(PNG)
        damaged[at] ^= 0x55
        with pytest.raises(InvalidInput):
            image_size(bytes(damaged))


@pytest.mark.parametrize(
    "data",
    [
        png(8, 8, 8, 2, b"", packed=zlib.compress(bytes(200))[:-12]),
        png(8, 8, 8, 2, bytes(60)),
        png(8, 8, 8, 2, b"", packed=b"not zlib"),
        png(2, 2, 8, 3, b"\0\0\1\0\1\0"),
        png(2, 2, 7, 2, bytes(20)),
        PNG[:33] + chunk(b"IEND"),
        PNG[:8] + chunk(b"IEND"),
        PNG[:8] + chunk(b"IHDR", bytes(5)) + PNG[33:],
    ],
    ids=[
        "short zlib",
        "too few rows",
        "no zlib",
        "no palette",
        "depth 7",
        "no data",
        "no header",
        "short header",
    ],
)
def test_a_png_with_whole_chunks_and_broken_contents_is_refused(data):
    with pytest.raises(InvalidInput):
        decode(data, spec(8, 8))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff\xd8\xff\xd9", "a frame header"),
        (b"\xff\xd8" + segment(0xE0, b"JFIF\0 and more") + b"\xff\xd9", "a frame header"),
        (b"\xff\xd8" + segment(0xDA, bytes(6)) + b"\xff\xd9", "its parts in order"),
        (b"\xff\xd8\xff\xc0\x00\x01" + JPEGS["baseline"][2:], "at least 2 bytes"),
        (b"\xff\xd8" + JPEGS["baseline"], "its parts in order"),
        (JPEGS["baseline"][:2] + segment(0xC0, bytes(15)) + b"\xff\xd9", "with pixels"),
    ],
    ids=["empty", "no frame", "scan before frame", "length 1", "two starts", "size 0"],
)
def test_a_jpeg_with_its_parts_in_disorder_is_refused(data, words):
    with pytest.raises(InvalidInput, match=words):
        decode(data, spec(8, 8))


def test_tables_before_the_frame_header_are_not_taken_for_it():
    tables = b"".join(segment(marker, bytes(15)) for marker in (0xC4, 0xC8, 0xCC))
    assert image_size(b"\xff\xd8" + tables + JPEGS["baseline"][2:]) == (32, 24)


@pytest.mark.parametrize("first", [chunk(b"IEND"), chunk(b"IHDR", bytes(12)), chunk(b"tEXt", bytes(13))])
def test_a_png_begins_with_its_header(first):
    with pytest.raises(InvalidInput, match="begins with IHDR"):
        image_size(PNG[:8] + first + PNG[33:])


def test_files_of_as_many_parts_as_are_allowed():
    text = PNG[:33] + chunk(b"tEXt") * MAX_ANCILLARY + PNG[33:]
    assert image_size(text) == (32, 24)
    scans = JPEGS["baseline"][:-2] + segment(0xDA, bytes(10)) * (MAX_SCANS - 1) + b"\xff\xd9"
    assert image_size(scans) == (32, 24)


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"GIF89a" + bytes(40), b"BM" + bytes(60), b"RIFF\0\0\0\0WEBPVP8 "]
)
def test_only_jpeg_and_png_are_files_at_all(data):
    with pytest.raises(InvalidInput, match="JPEG or PNG"):
        decode(data, spec(8, 8))


def test_a_header_that_claims_too_many_pixels_is_refused_before_decoding():
    huge = png(2**31 - 1, 2**31 - 1, 8, 2, bytes(10))
    wide = JPEGS["baseline"].replace(struct.pack(">HH", 24, 32), struct.pack(">HH", 65535, 65535))
    assert wide != JPEGS["baseline"]
    for data in (huge, wide):
        with pytest.raises(PayloadTooLarge, match="pixels"):
            decode(data, spec(8, 8))
    for size in ((0, 5), (5, 0)):
        with pytest.raises(InvalidInput, match="pixels"):
            decode(png(*size, 8, 2, b""), spec(8, 8))


def test_the_limits_are_exact():
    assert decode(PNG, spec(8, 8), max_bytes=len(PNG), max_pixels=24 * 32).shape == (8, 8, 3)
    with pytest.raises(PayloadTooLarge, match="pixels"):
        decode(PNG, spec(8, 8), max_pixels=24 * 32 - 1)
    with pytest.raises(PayloadTooLarge, match="bytes"):
        decode(PNG, spec(8, 8), max_bytes=len(PNG) - 1)


def test_the_pixel_limit_is_for_all_files_together_and_names_the_one_too_many():
    files = {f"data[{i}]": PNG for i in range(3)}
    images = decode_images(files, spec(24, 32), BYTES, 3 * 24 * 32)
    assert images.shape == (3, 24, 32, 3)
    np.testing.assert_array_equal(images[0], images[2])
    with pytest.raises(PayloadTooLarge) as refused:
        decode_images(files, spec(24, 32), BYTES, 3 * 24 * 32 - 1)
    assert refused.value.field == "data[2]"
    assert refused.value.got == "32 x 24 after 1536 pixels"
    with pytest.raises(PayloadTooLarge) as refused:
        decode_images(files, spec(24, 32), BYTES, 24 * 32 - 1)
    assert (refused.value.field, refused.value.got) == ("data[0]", "32 x 24")


@pytest.mark.parametrize(
    "data",
    [
        PNG[:33] + chunk(b"tEXt") * (MAX_ANCILLARY + 1) + PNG[33:],
        PNG[:33] + chunk(b"IDAT") * 200_000 + PNG[33:],
        JPEGS["baseline"][:2] + segment(0xFE, b"") * 200_000 + JPEGS["baseline"][2:],
        JPEGS["baseline"][:-2] + segment(0xDA, bytes(10)) * (MAX_SCANS + 1) + b"\xff\xd9",
    ],
    ids=["text chunks", "data chunks", "comments", "scans"],
)
def test_files_of_countless_parts_are_refused(data, capfd):
    with pytest.raises(InvalidInput, match="at most"):
        decode(data, spec(8, 8))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("filler", [b"\xff" * 4_000_000, b"\xff\x00" * 2_000_000, b"\xff\xd0" * 2_000_000])
def test_a_scan_of_millions_of_stuffed_bytes_is_walked(filler):
    assert image_size(JPEGS["baseline"][:-2] + filler + b"\xff\xd9") == (32, 24)


@pytest.mark.parametrize(
    ("like", "words"),
    [
        (InputSpec(name="x", shape=(8, 8, 3), dtype="float32"), "this is no image model"),
        (InputSpec(name="x", shape=(8, 8, 4), dtype="uint8", layout="HWC"), "takes 4 channels"),
        (InputSpec(name="x", shape=(2, 8, 8), dtype="uint8", layout="CHW"), "takes 2 channels"),
    ],
    ids=["no image model", "four channels", "two channels"],
)
def test_models_that_take_no_pictures_say_so(like, words):
    with pytest.raises(InvalidInput, match=words):
        decode(PNG, like)


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(sorted(FILES)),
    edits=st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(max_size=6)), max_size=4),
    keep=st.integers(0, 1 << 16),
)
def test_mutated_files_decode_or_are_refused(name, edits, keep):
    data = bytearray(FILES[name])
    for at, new in edits:
        at %= len(data)
        data[at : at + len(new)] = new
    data = bytes(data[: keep % (len(data) * 2)])
    # Anything but InvalidInput fails the test.
    with contextlib.suppress(InvalidInput):
        image = decode(data, spec(8, 8))
        assert image.shape == (8, 8, 3)
        assert image.dtype == np.uint8


@settings(max_examples=150, deadline=None)
@given(
    head=st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", JPEGS["baseline"][:40]]),
    tail=st.binary(),
)
def test_arbitrary_bytes_are_refused(head, tail):
    with pytest.raises(InvalidInput):
        decode(head + tail, spec(8, 8))
