"""What is asked of a model: a class, or a box. The rest of `train` knows tasks by this alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

Array = NDArray[Any]


@dataclass(frozen=True)
class Task:
    """How answers are scored and learned.

    metric: the score's name. score: (outputs `[n, *output]`, labels `[n, ...]`) -> float64 `[n]` in
    0..1; its mean is A_a or A_d. read: outputs -> what they say, in the labels' shape and meaning;
    `score(outputs, read(own))` is the agreement with the deployed model. loss: (outputs, labels,
    label smoothing) -> a scalar to train the deployed model with.
    """

    name: str
    metric: str
    score: Callable[[Array, Array], NDArray[np.float64]]
    read: Callable[[Array], Array]
    loss: Callable[[Tensor, Tensor, float], Tensor]


def _right_class(outputs: Array, labels: Array) -> NDArray[np.float64]:
    return (outputs.argmax(axis=-1) == labels).astype(np.float64)


def _cross_entropy(outputs: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    return functional.cross_entropy(outputs, labels, label_smoothing=smoothing)


CLASSES = Task("classes", "accuracy", _right_class, lambda outputs: outputs.argmax(axis=-1), _cross_entropy)
"""One logit a class; labels int64 `[n]`."""
