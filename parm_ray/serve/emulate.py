"""An emulated accelerator: the real forward pass, stretched to a scripted service time.

For experiments where the hardware is missing. Answers are the real model's; only the time is made.
"""

from __future__ import annotations

import time
import zlib
from itertools import count

import numpy as np
from numpy.typing import NDArray

from parm_ray.config import EmulateSettings
from parm_ray.models.predictor import Predictor
from parm_ray.serve.accelerator import SharedAccelerator, path_of
from parm_ray.workload import ServiceTime, SlownessScript


class Emulation:
    """One replica's call numbers. Models that share a replica share them, as they share its accelerator.

    server: the pool's name and the replica's rank, "deployed/0"; with the settings' seed, all that its
    slow calls depend on. node: whose accelerator it shares, if it shares one.
    """

    def __init__(self, server: str, node: str) -> None:
        self._server, self._node = server, node
        self._shared: dict[str, SharedAccelerator] = {}
        self._calls, self._models = count(), count()
        self._began = time.monotonic()

    def of(self, predictor: Predictor, settings: EmulateSettings) -> Predictor:
        """Return the predictor as the settings stretch it: itself when nothing is emulated."""
        # Models that share a replica draw their own times.
        name = f"{self._server}/{next(self._models)}"
        rng = np.random.default_rng([settings.seed, zlib.crc32(name.encode())])
        service = settings.service_time(rng)
        if service is None:
            return predictor
        return EmulatedAccelerator(
            predictor, service, settings.script(), self, self._accelerator(settings.accelerator)
        )

    def _accelerator(self, name: str | None) -> SharedAccelerator | None:
        if name is not None and name not in self._shared:
            self._shared[name] = SharedAccelerator(path_of(name, self._node))
        return None if name is None else self._shared[name]

    def factor(self, script: SlownessScript | None) -> float:
        """Return what the next call's time is multiplied by."""
        call = next(self._calls)
        if script is None:
            return 1.0
        return script.factor(self._server, call, time.monotonic() - self._began)


class EmulatedAccelerator:
    """Wraps a predictor so that each call takes at least a drawn service time."""

    def __init__(
        self,
        predictor: Predictor,
        service: ServiceTime,
        script: SlownessScript | None,
        emulation: Emulation,
        shared: SharedAccelerator | None = None,
    ) -> None:
        self._predictor, self._shared = predictor, shared
        self._service, self._script, self._emulation = service, script, emulation

    def predict(self, batch: NDArray[np.generic]) -> NDArray[np.generic]:
        """Map `[b, *input]` to `[b, *output]`, blocking the worker thread for the service time."""
        began = time.monotonic()
        outputs = self._predictor.predict(batch)
        takes = self._service.draw() * self._emulation.factor(self._script)
        left = takes - (time.monotonic() - began)
        if left > 0 and self._shared is None:
            time.sleep(left)
        elif self._shared is not None:
            for pause in self._shared.shares(left):
                time.sleep(pause)
        return outputs
