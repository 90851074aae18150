"""An emulated accelerator: the real forward pass, stretched to a scripted service time.

For experiments where the hardware is missing. Answers are the real model's; only the time is made.
"""

from __future__ import annotations

import time
import zlib

import numpy as np
from numpy.typing import NDArray

from parm_ray.config import EmulateSettings
from parm_ray.models.predictor import Predictor
from parm_ray.workload import SlowCalls


class EmulatedAccelerator:
    """Wraps a predictor so that each call takes at least a drawn service time."""

    def __init__(self, predictor: Predictor, settings: EmulateSettings, replica: str) -> None:
        self._predictor = predictor
        # Each replica draws its own sequence, the same one whenever it has the same name.
        seed = [settings.seed, zlib.crc32(replica.encode())]
        self._service = SlowCalls(
            settings.service_ms / 1e3, settings.slow_share, settings.slow_factor, np.random.default_rng(seed)
        )

    def predict(self, batch: NDArray[np.generic]) -> NDArray[np.generic]:
        """Map `[b, *input]` to `[b, *output]`, blocking the worker thread for the service time."""
        began = time.monotonic()
        outputs = self._predictor.predict(batch)
        left = self._service.draw() - (time.monotonic() - began)
        if left > 0:
            time.sleep(left)
        return outputs


def emulated(predictor: Predictor, settings: EmulateSettings, replica: str) -> Predictor:
    """Return the predictor itself when nothing is emulated."""
    return EmulatedAccelerator(predictor, settings, replica) if settings.service_ms > 0 else predictor
