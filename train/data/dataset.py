"""What every data set here is: queries and their labels, split into training and test, with its task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parm_ray.core.errors import ConfigError
from parm_ray.models.manifest import InputSpec, Preprocessing, TensorSpec
from train.task import CLASSES, Task

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]
Part = tuple[Images, Labels]

_STATISTICS_OF = 10_000
"""Images that mean and standard deviation are taken from: evenly spread, the same every time."""


@dataclass(frozen=True)
class Dataset:
    """Images as uint8 `[n, H, W, C]`, labels as int64 `[n]`, split once and for all.

    The validation part may be empty; it is taken from the training part.
    """

    name: str
    train_images: Images
    train_labels: Labels
    validation_images: Images
    validation_labels: Labels
    test_images: Images
    test_labels: Labels
    class_names: tuple[str, ...]
    task: Task = CLASSES

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
        some = self.train_images[:: max(1, len(self.train_images) // _STATISTICS_OF)]
        pixels = some.reshape(-1, some.shape[-1]).astype(np.float64)
        mean, std = pixels.mean(axis=0), pixels.std(axis=0)
        return Preprocessing(mean=tuple(mean.tolist()), std=tuple(std.tolist()))

    def save_queries(self, path: Path) -> None:
        """Write the test set to an .npz (`images`, `labels`), for whoever sends queries to a server."""
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, images=self.test_images, labels=self.test_labels)


@dataclass(frozen=True)
class Source:
    """Where a data set comes from.

    parts: called with the directory the user gave (or None); returns (train, test), test None where
    the set has no split of its own. class_names: None = the labels themselves.
    """

    what: str
    parts: Callable[[Path | None], tuple[Part, Part | None]]
    class_names: tuple[str, ...] | None = None


def split(part: Part, test_size: int, seed: int) -> tuple[Part, Part]:
    """Set `test_size` queries aside, as many of each class as its share; depends on arguments alone.

    Raises ConfigError naming test_size if that leaves no training data.
    """
    from sklearn.model_selection import train_test_split

    queries, labels = part
    try:
        train, test = train_test_split(
            np.arange(len(labels)), test_size=test_size, stratify=labels, random_state=seed
        )
    except ValueError as error:
        raise ConfigError(f"test_size: {error}") from None
    return (queries[train], labels[train]), (queries[test], labels[test])
