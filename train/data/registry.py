"""Data sets by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from parm_ray.core.errors import ConfigError
from train.data import idx, wheels
from train.data.dataset import Dataset, split

_SOURCES = {**wheels.SOURCES, **idx.SOURCES}


def dataset_names() -> tuple[str, ...]:
    """Return the names that `load_dataset` takes."""
    return tuple(_SOURCES)


def load_dataset(
    name: str,
    test_size: int | None = None,
    seed: int = 0,
    root: Path | None = None,
    train_size: int | None = None,
    validation_size: int = 0,
) -> Dataset:
    """Load a data set; where it has no test set of its own, `test_size` queries are set aside.

    test_size: for a set with its own test part, the number of test queries kept (the first ones;
    None = all). train_size: training queries kept, drawn by class (None = all), of which
    validation_size are then set aside. root: the directory
    the data lies in, where it does not come with a package. The result depends on the arguments
    alone. Raises ConfigError for another name, for missing files, and where the package that carries
    the data is not installed.
    """
    if name not in _SOURCES:
        raise ConfigError(f"dataset: expected one of {', '.join(_SOURCES)}, got {name!r}")
    source = _SOURCES[name]
    try:
        train, test = source.parts(root)
        if test is None:
            if test_size is None:
                raise ConfigError(f"test_size: {name} has no test set of its own, say how many to set aside")
            train, test = split(train, test_size, seed)
        elif test_size is not None:
            test = (test[0][:test_size], test[1][:test_size])
        if train_size is not None and train_size < len(train[1]):
            _, train = split(train, train_size, seed)
        validation = (train[0][:0], train[1][:0])
        if validation_size:
            train, validation = split(train, validation_size, seed)
    except ImportError as error:
        raise ConfigError(f"dataset {name}: {error}; install it with: pip install parm_ray[train]") from error
    return Dataset(
        name,
        train_images=train[0],
        train_labels=train[1],
        validation_images=validation[0],
        validation_labels=validation[1],
        test_images=test[0],
        test_labels=test[1],
        class_names=source.class_names or tuple(map(str, np.unique(train[1]))),
    )
