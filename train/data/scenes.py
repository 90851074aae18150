"""Where is it? Scenes COMPOSED from Fashion-MNIST: one item whole, on a background full of pieces.

No camera saw these. A scene is 32x32 grey: a slope of grey, lines, pieces of other items smaller than
any item, the item at a random place and size, noise over all. The label is the box the item fills.
Training scenes take their items from Fashion-MNIST's training part, test scenes from its test part.
"""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from train.data import idx
from train.data.dataset import Images, Part, Parts, Source
from train.task import BOXES

SIDE = 32
TRAIN, TEST = 20_000, 3_000
_SIZES = (10, 24)  # of the item's longer side, in pixels; both ends may be drawn
_PIECES = (4, 8)
_PIECE_SIDES = (3, 7)
_LINES = (0, 3)
_NOISE = 8.0  # standard deviation, in grey levels
_VISIBLE = 16  # an item's darker pixels let the background through


def compose(items: Images, count: int, seed: int) -> Part:
    """Compose `count` scenes of `items` (uint8 `[n, H, W, 1]`), each of a different one while they last.

    Returns images uint8 `[count, 32, 32, 1]` and boxes float32 `[count, 4]` (cx, cy, w, h, shares of
    the side). Depends on the arguments alone.
    """
    random = np.random.default_rng(seed)
    order = np.resize(random.permutation(len(items)), count)
    scenes = np.empty((count, SIDE, SIDE, 1), np.uint8)
    boxes = np.empty((count, 4), np.float32)
    for at, item in enumerate(order):
        scene = _background(items, random)
        left, top, width, height = _paste(scene, _cut_out(items[item, ..., 0]), random)
        noisy = scene + random.normal(0, _NOISE, scene.shape)
        scenes[at, ..., 0] = np.rint(noisy).clip(0, 255)
        boxes[at] = (left + width / 2, top + height / 2, width, height)
    return scenes, boxes / SIDE


def _background(items: Images, random: np.random.Generator) -> NDArray[np.float32]:
    """Return a slope of grey with lines and with pieces of items that are too small to be the item."""
    down, across = np.mgrid[0:SIDE, 0:SIDE] / SIDE - 0.5
    slope = random.uniform(-60, 60, 2)
    scene = (random.uniform(40, 120) + slope[0] * down + slope[1] * across).astype(np.float32)
    for _ in range(random.integers(_LINES[0], _LINES[1] + 1)):
        ends = random.integers(0, SIDE, 4).tolist()
        cv2.line(scene, ends[:2], ends[2:], random.uniform(0, 255), 1)
    for _ in range(random.integers(_PIECES[0], _PIECES[1] + 1)):
        height, width = random.integers(_PIECE_SIDES[0], _PIECE_SIDES[1] + 1, 2)
        item = items[random.integers(len(items)), ..., 0]
        y, x = random.integers(0, item.shape[0] - height), random.integers(0, item.shape[1] - width)
        top, left = random.integers(0, SIDE - height), random.integers(0, SIDE - width)
        _cover(scene[top : top + height, left : left + width], item[y : y + height, x : x + width])
    return scene


def _cut_out(item: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the item without the empty rows and columns around it; whole if it is all dark."""
    rows, columns = (np.flatnonzero((item > _VISIBLE).any(axis=axis)) for axis in (1, 0))
    return item[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] if rows.size else item


def _paste(
    scene: NDArray[np.float32], item: NDArray[np.uint8], random: np.random.Generator
) -> tuple[int, int, int, int]:
    """Put the item, at a size of its own, wholly into the scene; return left, top, width, height."""
    longer = random.integers(_SIZES[0], _SIZES[1] + 1)
    height, width = (max(2, round(side * longer / max(item.shape))) for side in item.shape)
    sized = cv2.resize(item, (width, height), interpolation=cv2.INTER_AREA).astype(np.uint8)
    top, left = (int(random.integers(0, SIDE - side + 1)) for side in (height, width))
    _cover(scene[top : top + height, left : left + width], sized)
    return left, top, width, height


def _cover(under: NDArray[np.float32], over: NDArray[np.uint8]) -> None:
    np.copyto(under, over, where=over > _VISIBLE)


def _parts(root: Path | None) -> Parts:
    fashion = idx.SOURCES["fashion"].parts(root)
    assert fashion.test is not None
    return Parts(compose(fashion.train[0], TRAIN, seed=0), compose(fashion.test[0], TEST, seed=1))


SOURCES = {"boxes": Source("composed scenes of one Fashion-MNIST item each, and its box", _parts, task=BOXES)}
