"""What every data set here is: queries and their labels, split into training and test, with its task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parm_ray.core.errors import ConfigError
from parm_ray.models.manifest import InputSpec, Preprocessing, TensorSpec
from train.task import CLASSES, Task

Images = NDArray[np.uint8]
Labels = NDArray[Any]
Part = tuple[Images, Labels]

_STATISTICS_OF = 10_000
"""Images that mean and standard deviation are taken from: evenly spread, the same every time."""


@dataclass(frozen=True)
class Dataset:
    """Images as uint8 `[n, H, W, C]` and labels, split once and for all.

    Labels are what the task says: int64 `[n]` of classes, float32 `[n, 4]` of boxes. The validation
    part may be empty. class_names is empty where there are no classes.
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
        """What a model of this data set answers: one logit a class, or what the task asks for."""
        width = len(self.class_names) if self.task.width is None else self.task.width
        return TensorSpec(name=self.task.output, shape=(width,), dtype="float32")

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
class Parts:
    """A data set as it is published; None where it has no such part of its own."""

    train: Part
    test: Part | None = None
    validation: Part | None = None


@dataclass(frozen=True)
class Source:
    """Where a data set comes from.

    parts: called with the directory the user gave (or None). class_names: None = the labels
    themselves, or none at all if the task is not of classes.
    """

    what: str
    parts: Callable[[Path | None], Parts]
    class_names: tuple[str, ...] | None = None
    task: Task = CLASSES


def split(part: Part, size: int, seed: int, field: str = "test_size") -> tuple[Part, Part]:
    """Set `size` queries aside, as many of each class as its share; depends on arguments alone.

    Labels that are not classes are split without regard to them. Raises ConfigError naming `field`
    if that leaves nothing on one side.
    """
    from sklearn.model_selection import train_test_split

    queries, labels = part
    classes = labels if labels.dtype.kind in "iu" else None
    try:
        rest, aside = train_test_split(
            np.arange(len(labels)), test_size=size, stratify=classes, random_state=seed
        )
    except ValueError as error:
        raise ConfigError(f"{field}: {error}") from None
    return (queries[rest], labels[rest]), (queries[aside], labels[aside])


def shuffled(part: Part) -> Part:
    """Return the same queries in an order that has nothing to do with their class, always the same."""
    order = np.random.default_rng(0).permutation(len(part[1]))
    return part[0][order], part[1][order]
