"""Cat-v-Dog: a directory of JPEG photographs of any size, made square as the server would make them.

Two layouts: Kaggle's, `<root>/train/cat.0.jpg`, `dog.0.jpg`, and a folder a class, `<root>/cat/*.jpg`,
`<root>/dog/*.jpg` (or both under `<root>/train`).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from parm_ray.core.errors import ConfigError, ParmError
from parm_ray.models.images import decode_image
from parm_ray.models.manifest import InputSpec
from train.data.dataset import Parts, Source

CLASSES = ("cat", "dog")
_MAX_BYTES = 2**24
_MAX_PIXELS = 2**26


def read_pictures(root: Path, size: int, classes: tuple[str, ...] = CLASSES) -> Parts:
    """Read every picture; one part, images uint8 `[n, size, size, 3]` (RGB), labels by `classes`.

    Resized by `parm_ray.models.images`, so that a JPEG sent to a server becomes the same query: both
    sides to `size`, without regard to proportions, averaging areas where the picture shrinks. Raises
    ConfigError naming the directory if a class has no picture, or the file that is no whole one.
    """
    found = [_find(root, name) for name in classes]
    missing = [name for name, paths in zip(classes, found, strict=True) if not paths]
    if missing:
        raise ConfigError(
            f"dataset: no pictures of {', '.join(missing)} under {root}; expected train/{missing[0]}.N.jpg "
            f"or {missing[0]}/*.jpg"
        )
    images = np.empty((sum(map(len, found)), size, size, 3), np.uint8)
    spec = InputSpec(name="image", shape=(size, size, 3), dtype="uint8", layout="HWC")
    for at, path in enumerate(path for paths in found for path in paths):
        images[at] = _read(path, spec)
    return Parts((images, np.repeat(np.arange(len(classes), dtype=np.int64), [len(p) for p in found])))


def _read(path: Path, spec: InputSpec) -> np.ndarray:
    try:
        return decode_image(path.read_bytes(), spec, _MAX_BYTES, _MAX_PIXELS)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except ParmError as error:
        raise ConfigError(f"{path}: {error}; mend or remove the file") from None


def _find(root: Path, name: str) -> list[Path]:
    """Return the pictures of a class in the first layout that has any, in an order of names alone."""
    for pattern in (f"train/{name}.*.jpg", f"{name}/*.jpg", f"train/{name}/*.jpg"):
        paths = sorted(root.glob(pattern))
        if paths:
            return paths
    return []


def _parts(size: int, root: Path | None) -> Parts:
    if root is None:
        raise ConfigError("dataset: give the directory of the pictures with --data")
    return read_pictures(root, size)


SOURCES = {
    "cat_v_dog": Source("photographs of cats and dogs, 224x224", partial(_parts, 224), CLASSES),
    "cat_v_dog64": Source("the same, 64x64", partial(_parts, 64), CLASSES),
}
