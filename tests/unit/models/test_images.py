"""Pictures of every kind become the model's input: size, channels, orientation, dtype, memory layout."""

import io
import struct

import cv2
import numpy as np
import pytest
from PIL import Image

from parm_ray.models.images import decode_image, image_size
from parm_ray.models.manifest import InputSpec
from tests.support.image_files import FILES, JPEGS, PNG, chunk, encode, png, segment

BYTES, PIXELS = 1 << 24, 1 << 20


def spec(h, w, channels=3, layout="HWC", dtype="uint8"):
    shape = (h, w, channels) if layout == "HWC" else (channels, h, w)
    return InputSpec(name="image", shape=shape, dtype=dtype, layout=layout)


def decode(data, like, max_bytes=BYTES, max_pixels=PIXELS):
    return decode_image(data, like, max_bytes, max_pixels)


def test_png_pixels_arrive_exactly_as_rgb():
    rgb = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    data = encode(rgb[..., ::-1])
    np.testing.assert_array_equal(decode(data, spec(5, 7)), rgb)
    np.testing.assert_array_equal(decode(data, spec(5, 7, layout="CHW")), rgb.transpose(2, 0, 1))


def test_jpeg_channels_are_in_rgb_order():
    bgr = np.zeros((16, 16, 3), np.uint8)
    bgr[..., 2] = 255
    red = decode(encode(bgr, ".jpg"), spec(16, 16))[8, 8]
    assert red[0] > 240
    assert red[1:].max() < 15


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16", "int64"])
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("channels", [1, 3])
def test_result_has_the_spec_s_shape_dtype_and_memory_layout(dtype, layout, channels):
    like = spec(6, 9, channels, layout, dtype)
    for data in (PNG, JPEGS["grey"]):
        image = decode(data, like)
        assert image.shape == like.shape
        assert image.dtype == like.numpy_dtype
        assert image.flags.c_contiguous


def test_floats_keep_the_pixels_units():
    data = encode(np.full((2, 2), 200, np.uint8))
    assert (decode(data, spec(2, 2, 1, dtype="float32")) == 200.0).all()


def test_shrinking_averages_and_growing_interpolates():
    checks = np.indices((64, 64)).sum(0) % 2 * 255
    small = decode(encode(checks.astype(np.uint8)), spec(8, 8, 1))
    assert np.abs(small.astype(int) - 127).max() <= 1
    ramp = decode(encode(np.array([[0, 255]], np.uint8)), spec(1, 8, 1)).reshape(-1)
    assert (np.diff(ramp.astype(int)) >= 0).all()
    assert len(set(ramp.tolist())) > 2


@pytest.mark.parametrize(
    ("data", "channels", "pixels"),
    [
        (
            png(2, 1, 8, 3, b"\0\0\1", chunk(b"PLTE", bytes([255, 0, 0, 0, 0, 255]))),
            3,
            [255, 0, 0, 0, 0, 255],
        ),
        (png(1, 1, 8, 6, b"\0\x10\x20\x30\0"), 3, [0x10, 0x20, 0x30]),
        (png(1, 1, 8, 4, b"\0\x10\0"), 1, [0x10]),
        (png(1, 1, 8, 4, b"\0\x10\0"), 3, [0x10] * 3),
        (png(1, 1, 16, 2, b"\0\x12\xff\x34\0\x56\0"), 3, [0x12, 0x34, 0x56]),
        (png(1, 1, 16, 0, b"\0\x12\xff"), 1, [0x12]),
        (png(8, 1, 1, 0, b"\0\xaa"), 1, [255, 0] * 4),
        (png(1, 1, 8, 2, b"\0\x10\x20\x30", chunk(b"tRNS", b"\0\x10\0\x20\0\x30")), 3, [0x10, 0x20, 0x30]),
    ],
    ids=[
        "palette",
        "transparent",
        "grey alpha",
        "grey alpha as rgb",
        "16 bit",
        "16 bit grey",
        "1 bit",
        "key",
    ],
)
def test_every_kind_of_png_becomes_8_bit_without_alpha(data, channels, pixels):
    w, h = image_size(data)
    assert decode(data, spec(h, w, channels)).reshape(-1).tolist() == pixels


@pytest.mark.parametrize("size", [(12, 16), (7, 50), (24, 32), (48, 64), (3, 3)])
@pytest.mark.parametrize("name", FILES)
def test_a_resized_picture_is_what_opencv_makes_of_it(name, size):
    bgr = cv2.imdecode(np.frombuffer(FILES[name], np.uint8), cv2.IMREAD_COLOR)
    h, w = size
    how = cv2.INTER_AREA if h * w < 24 * 32 else cv2.INTER_LINEAR
    expected = cv2.resize(bgr, (w, h), interpolation=how)[..., ::-1]
    np.testing.assert_array_equal(decode(FILES[name], spec(h, w)), expected)
    planes = decode(FILES[name], spec(h, w, layout="CHW", dtype="float32"))
    np.testing.assert_array_equal(planes, expected.transpose(2, 0, 1).astype(np.float32))


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}, {"optimize": True}])
def test_jpegs_of_another_encoder_look_the_same(mode, options):
    rgb = np.zeros((32, 32, 3), np.uint8)
    rgb[:16, :16], rgb[:16, 16:], rgb[16:, :16] = (250, 20, 20), (20, 250, 20), (20, 20, 250)
    file = io.BytesIO()
    Image.fromarray(rgb).convert(mode).save(file, "JPEG", quality=95, **options)
    seen = decode(file.getvalue(), spec(32, 32)).astype(int)
    for y, x in ((8, 8), (8, 24), (24, 8), (24, 24)):
        expected = rgb[y, x] if mode != "L" else [np.array(Image.fromarray(rgb).convert("L"))[y, x]] * 3
        assert np.abs(seen[y, x] - expected).max() < 16, (y, x)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("orientation", "bright"),
    [
        (1, (0, 0)),
        (2, (0, -1)),
        (3, (-1, -1)),
        (4, (-1, 0)),
        (5, (0, 0)),
        (6, (0, -1)),
        (7, (-1, -1)),
        (8, (-1, 0)),
    ],
)
def test_exif_orientation_is_applied(orientation, bright, channels):
    image = np.zeros((16, 32), np.uint8)
    image[:8, :16] = 255
    entry = struct.pack(">HHIHH", 0x0112, 3, 1, orientation, 0)
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\1" + entry + bytes(4)
    data = encode(image, ".jpg")
    data = data[:2] + segment(0xE1, exif) + data[2:]
    h, w = (16, 32) if orientation < 5 else (32, 16)
    upright = decode(data, spec(h, w, channels))[..., 0]
    corners = {(y, x): upright[y, x] > 128 for y in (0, -1) for x in (0, -1)}
    assert [at for at, lit in corners.items() if lit] == [bright]


@pytest.mark.parametrize("name", FILES)
def test_the_size_is_read_from_the_header(name):
    assert image_size(FILES[name]) == (32, 24)
