"""What is asked of a model: a class, or a box. The rest of `train` knows tasks by this alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from parm_ray.core.errors import ConfigError

Array = NDArray[Any]

_BOX_BETA = 0.05
"""Where the box loss turns from squares to absolute values, as a share of the image's side."""


@dataclass(frozen=True)
class Task:
    """How answers are scored and learned.

    metric: the score's name. score: (outputs `[n, *output]`, labels `[n, ...]`) -> float64 `[n]` in
    0..1; its mean is A_a or A_d. read: outputs -> what they say, in the labels' shape and meaning;
    `score(outputs, read(own))` is the agreement with the deployed model. loss: (outputs, labels,
    label smoothing) -> a scalar to train the deployed model with. output: the name of a model's
    answer in manifests. width: how many numbers an answer has, None = one a class. of_classes:
    whether labels are classes, which stay true when a query is shifted or mirrored, can be smoothed
    and distilled, and are what a split is stratified by.
    """

    name: str
    metric: str
    score: Callable[[Array, Array], NDArray[np.float64]]
    read: Callable[[Array], Array]
    loss: Callable[[Tensor, Tensor, float], Tensor]
    output: str = "logits"
    width: int | None = None
    of_classes: bool = True

    def check_training(
        self,
        *,
        shift: int = 0,
        flip: bool = False,
        label_smoothing: float = 0.0,
        loss: str = "mse",
        outputs: str = "logits",
    ) -> None:
        """Raise ConfigError naming the setting of a recipe that labels of this task do not bear."""
        if self.of_classes:
            return
        for field, wrong, legal in (
            ("shift", shift != 0, "0: the labels would not move with the image"),
            ("flip", flip, "false: the labels would not be mirrored with the image"),
            ("label_smoothing", label_smoothing != 0, "0: there are no classes"),
            ("loss", loss != "mse", "mse: there are no classes"),
            ("outputs", outputs != "logits", "logits, the answers as they are: there are no classes"),
        ):
            if wrong:
                raise ConfigError(f"{field}: for {self.name} expected {legal}")


def _right_class(outputs: Array, labels: Array) -> NDArray[np.float64]:
    return (outputs.argmax(axis=-1) == labels).astype(np.float64)


def _cross_entropy(outputs: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    return functional.cross_entropy(outputs, labels, label_smoothing=smoothing)


def legal_boxes(outputs: Array) -> NDArray[np.float32]:
    """Return the part of each box `[n, 4]` (cx, cy, w, h) that lies in the image, 0..1 each way.

    A negative side counts as none. Of a box wholly outside, an empty one at the edge is left.
    """
    low, high = _corners(outputs)
    low, high = low.clip(0, 1), high.clip(0, 1)
    return np.concatenate([(low + high) / 2, high - low], axis=-1).astype(np.float32)


def intersection_over_union(boxes: Array, others: Array) -> NDArray[np.float64]:
    """Return the shared area over the area of both, float64 `[n]`, of `[n, 4]` (cx, cy, w, h) each.

    0 where both boxes are empty.
    """
    (low, high), (other_low, other_high) = _corners(boxes), _corners(others)
    sides = (np.minimum(high, other_high) - np.maximum(low, other_low)).clip(0)
    shared = sides.prod(axis=-1)
    union = (high - low).prod(axis=-1) + (other_high - other_low).prod(axis=-1) - shared
    # Rounding may put a box's overlap with itself a hair above its area.
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0).clip(0, 1)


def _corners(boxes: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    centres, halves = np.split(np.asarray(boxes, np.float64), 2, axis=-1)
    halves = halves.clip(0) / 2
    return centres - halves, centres + halves


def _box_overlap(outputs: Array, labels: Array) -> NDArray[np.float64]:
    return intersection_over_union(legal_boxes(outputs), labels)


def _smooth_l1(outputs: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    return functional.smooth_l1_loss(outputs, labels, beta=_BOX_BETA)


CLASSES = Task("classes", "accuracy", _right_class, lambda outputs: outputs.argmax(axis=-1), _cross_entropy)
"""One logit a class; labels int64 `[n]`."""

BOXES = Task("boxes", "IoU", _box_overlap, legal_boxes, _smooth_l1, output="box", width=4, of_classes=False)
"""Where the one item is: cx, cy, w, h as shares of the image's sides; labels float32 `[n, 4]`.

Learned by the smooth L1 loss (Girshick 2015, Fast R-CNN), scored by intersection over union.
"""
