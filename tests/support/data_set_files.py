"""Tiny data sets in the real formats of the published files."""

import gzip
import struct
import wave

import cv2
import numpy as np


def write_idx(path, values):
    """An IDX file of unsigned bytes, gzipped if its name ends in .gz."""
    header = b"\0\0\x08" + bytes([values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    data = header + values.astype(np.uint8).tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def write_mnist_like(folder, ending="", train=20, test=10):
    """The four files; image i is a bright rectangle on black, its label i % 10. Returns the arrays."""
    arrays = {}
    for prefix, count in (("train", train), ("t10k", test)):
        images = np.zeros((count, 28, 28), np.uint8)
        for i, image in enumerate(images):
            image[4 : 14 + i % 10, 8 : 16 + i % 5] = 100 + i
        labels = np.arange(count) % 10
        write_idx(folder / f"{prefix}-images-idx3-ubyte{ending}", images)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte{ending}", labels)
        arrays[prefix] = images, labels
    return arrays


def write_cifar(path, images, labels):
    """Records of labels `[n, 1 or 2]` and images `[n, 32, 32, 3]`, the red plane first."""
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(np.concatenate([labels, planes], axis=1).astype(np.uint8).tobytes())


def write_jpeg(path, colour, height=30, width=40):
    """A picture all of one colour (red, green, blue)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), np.full((height, width, 3), colour[::-1], np.uint8))


def write_wav(path, samples, rate=16_000, channels=1):
    """Sound as 16-bit samples."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())


def tone(hertz, seconds=1.0, rate=16_000):
    """A sine at half of full scale."""
    return 16_000 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)
