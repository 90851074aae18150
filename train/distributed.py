"""A run carried out by several workers of Ray Train together, on one machine or on many.

Every worker carries out the same `Run`: it draws its own share of each step's groups, and torch
averages the gradients (DistributedDataParallel, gloo on CPUs, nccl on GPUs). Worker 0 alone measures
and writes log, checkpoints and artefacts. All of them read `out`, which on several machines has to be
a directory that all of them see.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from parm_ray.core.errors import ConfigError, ParmError
from train.pipeline import Run
from train.recipe import Recipe
from train.results import Artefact
from train.worker import Worker

_PATHS = ("data", "deployed", "logged")


def run_on_workers(
    recipe: Recipe, out: Path, workers: int, *, device: str = "auto", **options: Any
) -> tuple[list[Artefact], list[str]]:
    """Carry out a recipe on `workers` workers; return what `Run.rows` returns, and `Run.skipped`.

    device: "auto" (a GPU for each worker where Ray has so many), "cpu" or "cuda". options: `Run`'s
    others, but for progress and worker. Uses the Ray cluster that this process is connected to or
    RAY_ADDRESS names; without one it starts its own for the length of the run. Raises ConfigError
    naming workers or device if that cannot be had, and the workers' own errors of this package.
    """
    try:
        import ray
        from ray.train import RunConfig, ScalingConfig, WorkerGroupError
        from ray.train.torch import TorchTrainer
    except ImportError as error:
        raise ConfigError(f"workers: Ray Train is missing ({error}); pip install parm_ray[train]") from error
    Run(recipe, out, device="cpu", **options)  # what it refuses, it refuses before workers start
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    started = not ray.is_initialized()
    if started:
        # Left to itself, Ray looks for whatever cluster was last started on this machine, dead or not.
        address = os.environ.get("RAY_ADDRESS", "local")
        own: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        ray.init(address, **own)
    try:
        use_gpu = _use_gpu(device, workers, ray.cluster_resources())
        task = {
            "recipe": recipe,
            "out": out,
            "options": {name: _absolute(name, value) for name, value in options.items()},
        }
        with tempfile.TemporaryDirectory(prefix=".ray-train-", dir=out) as storage:
            trainer: Any = TorchTrainer(
                _carry_out,  # type: ignore[arg-type]  # what it returns is in the result
                train_loop_config=task,
                scaling_config=ScalingConfig(num_workers=workers, use_gpu=use_gpu),
                run_config=RunConfig(name=recipe.name, storage_path=storage),
            )
            try:
                lines, skipped = trainer.fit().return_value
            except WorkerGroupError as error:
                raise _cause(error) from error
            return lines, skipped
    finally:
        if started:
            ray.shutdown()


def _carry_out(task: dict[str, Any]) -> tuple[list[Artefact], list[str]]:
    """Do one worker's part. Ray Train has set up torch's process group."""
    import ray.train
    import ray.train.torch

    context = ray.train.get_context()
    worker = Worker(context.get_world_rank(), context.get_world_size())
    device = str(ray.train.torch.get_device())
    run = Run(task["recipe"], task["out"], device=device, worker=worker, **task["options"])
    return run.rows(), run.skipped


def _absolute(name: str, value: Any) -> Any:
    """Workers start in another directory."""
    return value.resolve() if name in _PATHS and value is not None else value


def _use_gpu(device: str, workers: int, resources: dict[str, float]) -> bool:
    if device not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"device: expected auto, cpu or cuda with several workers, got {device!r}")
    gpus, cpus = int(resources.get("GPU", 0)), int(resources.get("CPU", 0))
    use_gpu = device == "cuda" or (device == "auto" and gpus >= workers)
    if use_gpu and gpus < workers:
        raise ConfigError(f"workers: expected at most {gpus}, the GPUs Ray has, got {workers}")
    if cpus < workers:
        raise ConfigError(f"workers: expected at most {cpus}, the CPUs Ray has, got {workers}")
    return use_gpu


def _cause(error: Any) -> Exception:
    """Return the first worker's own complaint where it is one of this package, else the whole error."""
    for _, failure in sorted(error.worker_failures.items()):
        original = getattr(failure, "_base_exc", failure)
        if isinstance(original, ParmError):
            return original
    whole: Exception = error
    return whole
