"""The replicas: a deployed model or a parity model behind one worker thread."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import ray
from numpy.typing import NDArray
from ray import serve

from parm_ray.config import EmulateSettings, ParityPoolSettings, PoolSettings
from parm_ray.models.loading import load_predictor
from parm_ray.models.predictor import Predictor
from parm_ray.serve.emulate import Emulation


class ModelReplica:
    """Loads an artefact, warms it up, then answers batches one at a time.

    Forward passes run on a thread of their own, so health checks are answered while a batch runs.
    """

    def __init__(self, settings: PoolSettings, pool: str) -> None:
        # One thread: a replica is one accelerator. A second call waits here, not on the event loop.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="forward")
        rank = serve.get_replica_context().rank
        node = ray.get_runtime_context().get_node_id()
        self._emulation = Emulation(f"{pool}/{rank.rank if rank is not None else 0}", node)
        self._predictor = self._load(settings.artifact, settings, settings.emulate)

    def _load(self, artifact: str, settings: PoolSettings, emulate: EmulateSettings) -> Predictor:
        """Load a model on the worker thread, where torch keeps what it keeps per thread."""
        loaded = self._worker.submit(load_predictor, artifact, settings.device, settings.threads)
        return self._emulation.of(loaded.result()[1], emulate)

    async def predict(self, batch: NDArray[np.generic]) -> NDArray[np.generic]:
        """Map `[b, *input]` to `[b, *output]` (parity with slot heads: `[b, k, *output]`)."""
        return await self._answer(self._predictor, batch)

    async def _answer(self, predictor: Predictor, batch: NDArray[np.generic]) -> NDArray[np.generic]:
        return await asyncio.get_running_loop().run_in_executor(self._worker, predictor.predict, batch)

    def record_replica_metadata(self) -> dict[str, int]:
        """What the dashboard and experiments can see of a replica."""
        return {"pid": os.getpid()}


class DeployedModel(ModelReplica):
    """A replica of the deployed model."""


class ParityModel(ModelReplica):
    """A replica of one parity row's parity model."""


class BackupModel(ModelReplica):
    """A replica of a smaller model that answers every query, too."""


class SharedModel(ModelReplica):
    """A replica of the deployed model that holds the parity models of all rows, on the same device.

    One worker thread runs them all: which of them runs when is decided by the ingress's queue.
    """

    def __init__(self, settings: PoolSettings, pool: str, parities: tuple[ParityPoolSettings, ...]) -> None:
        super().__init__(settings, pool)
        self._parities = [self._load(parity.artifact, settings, parity.emulate) for parity in parities]

    async def predict_parity(self, batch: NDArray[np.generic], row: int) -> NDArray[np.generic]:
        """Map parity queries of a row to the outputs of its parity model."""
        return await self._answer(self._parities[row], batch)
