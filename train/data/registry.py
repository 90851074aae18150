"""Data sets by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from parm_ray.core.errors import ConfigError
from train.data import cifar, idx, pictures, scenes, speech_folder, speech_synth, wheels
from train.data.dataset import Dataset, Part, Parts, Source, split
from train.task import Task

_SOURCES: dict[str, Source] = {
    **wheels.SOURCES,
    **idx.SOURCES,
    **cifar.SOURCES,
    **pictures.SOURCES,
    **speech_synth.SOURCES,
    **speech_folder.SOURCES,
    **scenes.SOURCES,
}


def dataset_names() -> tuple[str, ...]:
    """Return the names that `load_dataset` takes."""
    return tuple(_SOURCES)


def task_of(name: str) -> Task:
    """Return what is asked of a model of that data set, without loading it.

    Raises ConfigError for another name.
    """
    return _source(name).task


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
    None = all). train_size: training queries kept, drawn by class (None = all). validation_size:
    drawn from the set's own validation part, or else set aside from those training queries. root:
    the directory the data lies in, where it does not come with a package. The result depends on the
    arguments alone. Raises ConfigError for another name, for missing files, and where the package
    that carries the data is not installed.
    """
    source = _source(name)
    try:
        parts = source.parts(root)
        train, test = _test_of(name, parts, test_size, seed)
        if train_size is not None and train_size < len(train[1]):
            _, train = split(train, train_size, seed, "train_size")
        train, validation = _validation_of(train, parts.validation, validation_size, seed)
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
        class_names=_class_names(source, train),
        task=source.task,
    )


def _source(name: str) -> Source:
    if name not in _SOURCES:
        raise ConfigError(f"dataset: expected one of {', '.join(_SOURCES)}, got {name!r}")
    return _SOURCES[name]


def _test_of(name: str, parts: Parts, size: int | None, seed: int) -> tuple[Part, Part]:
    if parts.test is not None:
        return parts.train, (parts.test[0][:size], parts.test[1][:size])
    if size is None:
        raise ConfigError(f"test_size: {name} has no test set of its own, say how many to set aside")
    return split(parts.train, size, seed)


def _validation_of(train: Part, own: Part | None, size: int, seed: int) -> tuple[Part, Part]:
    if size == 0:
        return train, (train[0][:0], train[1][:0])
    if own is None:
        return split(train, size, seed, "validation_size")
    if size > len(own[1]):
        raise ConfigError(f"validation_size: expected at most {len(own[1])}, the set's own, got {size}")
    return train, own if size == len(own[1]) else split(own, size, seed, "validation_size")[1]


def _class_names(source: Source, train: Part) -> tuple[str, ...]:
    if not source.task.of_classes:
        return ()
    return source.class_names or tuple(map(str, np.unique(train[1])))
