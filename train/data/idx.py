"""MNIST and Fashion-MNIST in their published IDX files, gzipped or not.

Looked for in the directory given, in torchvision's layout (`<root>/FashionMNIST/raw`) and plain, and
for Fashion-MNIST where Debian's package `dataset-fashion-mnist` puts them. 60,000 and 10,000 images,
28x28, values 0..255.
"""

from __future__ import annotations

import gzip
import math
import zlib
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parm_ray.core.errors import ConfigError
from train.data.dataset import Part, Parts, Source

DEBIAN = Path("/usr/share/datasets/fashion-mnist")

FASHION_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes, gzipped if its name ends in .gz.

    Raises ConfigError naming the file if it is not one or is cut short.
    """
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise ConfigError(f"{path}: not an IDX file of unsigned bytes")
    dims = raw[3]
    shape = (
        tuple(np.frombuffer(raw, ">u4", count=dims, offset=4).tolist()) if len(raw) >= 4 + 4 * dims else ()
    )
    values = np.frombuffer(raw, np.uint8, offset=min(len(raw), 4 + 4 * dims))
    if not shape or values.size != math.prod(shape):
        raise ConfigError(f"{path}: cut short: {values.size} values for shape {shape}")
    return values.reshape(shape)


def _parts(folder: str, places: tuple[Path, ...], advice: str, root: Path | None) -> Parts:
    roots = places if root is None else (root / folder / "raw", root / "raw", root)
    for place in roots:
        if _find(place, "train-images-idx3-ubyte") is not None:
            return Parts(_part(place, "train"), _part(place, "t10k"))
    looked = ", ".join(map(str, roots)) or "nowhere: give a directory with --data"
    raise ConfigError(f"dataset: no train-images-idx3-ubyte(.gz) found (looked in {looked}). {advice}")


def _part(place: Path, prefix: str) -> Part:
    images = read_idx(_need(place, f"{prefix}-images-idx3-ubyte"))
    labels = read_idx(_need(place, f"{prefix}-labels-idx1-ubyte"))
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise ConfigError(f"{place}: {prefix}: images {images.shape} and labels {labels.shape} do not fit")
    return np.ascontiguousarray(images[..., None]), labels.astype(np.int64)


def _find(place: Path, stem: str) -> Path | None:
    return next((path for path in (place / stem, place / f"{stem}.gz") if path.is_file()), None)


def _need(place: Path, stem: str) -> Path:
    path = _find(place, stem)
    if path is None:
        raise ConfigError(f"{place}: {stem}(.gz) is missing")
    return path


SOURCES = {
    "fashion": Source(
        "Fashion-MNIST, 70,000 images",
        partial(
            _parts,
            "FashionMNIST",
            (DEBIAN,),
            "Install Debian's package dataset-fashion-mnist, or give torchvision's directory with --data",
        ),
        FASHION_CLASSES,
    ),
    "mnist": Source(
        "MNIST, 70,000 images",
        partial(_parts, "MNIST", (), "Give torchvision's directory, or that of the four files, with --data"),
    ),
}
