"""How long encoding and decoding take, as a multiple of the deployed model's own pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from parm_ray.codes import Code
from parm_ray.models.predictor import Predictor

_ROUNDS = 200


@dataclass(frozen=True)
class Ratios:
    """Median times over the median of one pass of the deployed model at batch 1, on one thread.

    encode, decode: of one group of single queries, one of them lost (None = there is no such step).
    stand_in: a pass of the model that answers the parity.
    """

    encode: float | None = None
    decode: float | None = None
    stand_in: float | None = None


def measure(
    code: Code | None, deployed: Predictor, stand_in: Predictor | None, query: np.ndarray, output: np.ndarray
) -> Ratios:
    """Time all in turns, so that whatever else the machine does slows all alike.

    query: `[1, *shape]`, raw; output: `[1, *output]`. The parity's answer is taken to be an output.
    """
    steps: dict[str, Callable[[], object]] = {"deployed": lambda: deployed.predict(query)}
    if code is not None:
        slots, own = [query] * code.k, [None, *[output] * (code.k - 1)]
        lengths, parities = [1] * code.k, [output] * code.r
        [parity, *_] = code.encode(slots)
        steps["encode"] = lambda: code.encode(slots)
        steps["decode"] = lambda: code.decode(own, parities, lengths, [0])
        if stand_in is not None:
            steps["stand_in"] = lambda: stand_in.predict(parity)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        medians = _medians(steps)
    finally:
        torch.set_num_threads(before)
    own_pass = medians.pop("deployed")
    return Ratios(**{name: median / own_pass for name, median in medians.items()})


def time_once(step: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def _medians(steps: dict[str, Callable[[], object]]) -> dict[str, float]:
    for step in steps.values():
        step()
    times = [[time_once(step) for step in steps.values()] for _ in range(_ROUNDS)]
    return dict(zip(steps, np.median(times, axis=0).tolist(), strict=True))
