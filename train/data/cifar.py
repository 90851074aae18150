"""CIFAR-10 and CIFAR-100 in their *binary* version, 32x32 colour, values 0..255 (Krizhevsky 2009).

The same pictures are published as Python pickles, which torchvision expects. Unpickling runs
whatever a file says, so those are not read here; the binary archive has the same order and labels.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from parm_ray.core.errors import ConfigError
from train.data.dataset import Part, Parts, Source

_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE

_CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck"
_CIFAR100 = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup
dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower
leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange
orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit
raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel
streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip
turtle wardrobe whale willow_tree wolf woman worm
"""


def read_records(path: Path, label_bytes: int, classes: int) -> Part:
    """Read a file of records: `label_bytes` labels, the last of which counts, and 3x32x32 pixels.

    Returns images uint8 `[n, 32, 32, 3]` (RGB) and labels int64 `[n]`. Raises ConfigError naming the
    file if it cannot be read, is not a whole number of records or has a label that is no class.
    """
    try:
        raw = np.frombuffer(path.read_bytes(), np.uint8)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    record = label_bytes + _PIXELS
    if raw.size == 0 or raw.size % record:
        raise ConfigError(f"{path}: {raw.size} bytes are not a whole number of records of {record}")
    records = raw.reshape(-1, record)
    labels = records[:, label_bytes - 1].astype(np.int64)
    if labels.max() >= classes:
        raise ConfigError(f"{path}: label {labels.max()}, expected 0 to {classes - 1}")
    pixels = records[:, label_bytes:].reshape(-1, 3, _SIDE, _SIDE)
    return np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)), labels


def _parts(
    folder: str, train: tuple[str, ...], test: str, label_bytes: int, classes: int, root: Path | None
) -> Parts:
    wanted = f"the binary version's {folder} with {train[0]} and {test}"
    if root is None:
        raise ConfigError(f"dataset: give the directory of {wanted} with --data")
    place = next((p for p in (root / folder, root) if (p / train[0]).is_file()), None)
    if place is None:
        raise ConfigError(f"dataset: no {folder}/{train[0]} under {root}; expected {wanted}, not the pickles")
    pieces = [read_records(place / name, label_bytes, classes) for name in train]
    images, labels = zip(*pieces, strict=True)
    return Parts(
        (np.concatenate(images), np.concatenate(labels)), read_records(place / test, label_bytes, classes)
    )


SOURCES = {
    "cifar10": Source(
        "CIFAR-10, 60,000 images",
        partial(
            _parts,
            "cifar-10-batches-bin",
            tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
            "test_batch.bin",
            1,
            10,
        ),
        tuple(_CIFAR10.split()),
    ),
    "cifar100": Source(
        "CIFAR-100, 60,000 images, the fine labels",
        partial(_parts, "cifar-100-binary", ("train.bin",), "test.bin", 2, 100),
        tuple(_CIFAR100.split()),
    ),
}
