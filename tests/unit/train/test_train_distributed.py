"""Two real workers of Ray Train on a cluster of their own."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
import ray.train
import torch
from ray.train import RunConfig, ScalingConfig, WorkerGroupError
from ray.train.torch import TorchTrainer
from ray.train.v2._internal.exceptions import UserExceptionWithTraceback
from torch import Tensor, nn

from parm_ray.core.errors import ConfigError
from train.distributed import _cause, _use_gpu, run_on_workers
from train.fit import CHECKPOINT, LOG, Fit, step_generator
from train.pipeline import Run
from train.recipe import OptimiserRecipe, Recipe, load_recipe
from train.worker import Worker


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    root = str(Path(__file__).resolve().parents[3])
    ray.init(
        address="local",
        num_cpus=2,
        object_store_memory=100 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": root}},
    )
    yield
    ray.shutdown()


def short(**changed: object) -> Recipe:
    tiny = load_recipe("tiny")
    deployed = tiny.deployed and tiny.deployed.model_copy(update={"epochs": 8})
    parity = tiny.parities[1].model_copy(update={"steps": 150, **changed})
    return tiny.model_copy(update={"deployed": deployed, "parities": (parity,), "evaluation_rounds": 1})


def fit_on_worker(folder: Path) -> list[list[int]]:
    """One worker's part: a run, one that is killed, and that one's second try; returns their steps."""
    context = ray.train.get_context()
    worker = Worker(context.get_world_rank(), context.get_world_size())

    def run(name: str, killed_at: int | None = None) -> tuple[list[int], Tensor]:
        torch.manual_seed(worker.rank)  # the first worker's initial weights are what counts
        net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
        steps: list[int] = []

        def loss_of(net: nn.Module, step: int) -> Tensor:
            if step == killed_at:
                raise KeyboardInterrupt
            steps.append(step)
            seen = torch.randn(8, 4, generator=step_generator(0, step, worker))
            return (net(seen) - seen[:, :2]).square().mean()

        optimiser = OptimiserRecipe(learning_rate=0.05)
        fit = Fit(optimiser, 6, folder=folder / name, identity="this", checkpoint_s=0.0, worker=worker)
        try:
            fit.run(net, loss_of)
        except KeyboardInterrupt:
            assert killed_at is not None
        return steps, torch.cat([weight.detach().flatten() for weight in net.parameters()])

    whole, wanted = run("whole")
    killed, stopped = run("stopped", killed_at=4)
    resumed, weights = run("stopped")
    others = wanted.clone()
    torch.distributed.broadcast(others, src=1)
    assert torch.equal(others, wanted), "the workers' weights differ"
    assert not torch.equal(stopped, wanted)
    assert torch.equal(weights, wanted), "a resumed run's weights differ"
    return [whole, killed, resumed]


@pytest.mark.ray
def test_workers_keep_the_same_weights_and_go_on_from_a_checkpoint(cluster: None, tmp_path: Path) -> None:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    trainer = TorchTrainer(
        fit_on_worker,
        train_loop_config=tmp_path,
        scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
        run_config=RunConfig(storage_path=str(tmp_path / "ray")),
    )
    whole, killed, resumed = trainer.fit().return_value
    assert whole == [0, 1, 2, 3, 4, 5]
    assert killed == [0, 1, 2, 3]
    assert resumed == [4, 5]


@pytest.mark.ray
def test_two_workers_train_what_one_would(cluster: None, tmp_path: Path) -> None:
    lines, skipped = run_on_workers(short(), tmp_path, 2, device="cpu")
    assert [line.model for line in lines] == ["deployed", "concat_slot_k2"]
    assert not any(line.cached for line in lines)
    assert not skipped
    assert lines[0].a_a >= 0.9
    assert lines[1].a_d is not None
    assert lines[1].a_d >= 0.75
    folder = tmp_path / "digits" / "concat_slot_k2"
    assert (folder / LOG).is_file()
    assert not (folder / CHECKPOINT).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["digits"]

    # Another process, alone, finds nothing left to do.
    assert all(line.cached for line in Run(short(), tmp_path, device="cpu").rows())


def test_what_a_run_refuses_is_refused_before_workers_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="only: other not in the recipe"):
        run_on_workers(short(), tmp_path, 2, device="cpu", only=["other"])


def test_a_workers_own_complaint_is_told() -> None:
    refused = ConfigError("logged: no such record")
    wrapped = UserExceptionWithTraceback(refused, "a long trace")
    error = WorkerGroupError("both failed", {1: wrapped, 0: RuntimeError("connection closed")})
    assert _cause(error) is refused
    unknown = WorkerGroupError("one failed", {0: RuntimeError("connection closed")})
    assert _cause(unknown) is unknown


def test_devices_are_shared_out_where_there_are_enough() -> None:
    assert _use_gpu("auto", 2, {"CPU": 8.0, "GPU": 2.0})
    assert not _use_gpu("auto", 4, {"CPU": 8.0, "GPU": 2.0})
    assert not _use_gpu("cpu", 2, {"CPU": 8.0, "GPU": 2.0})
    with pytest.raises(ConfigError, match="workers: expected at most 1, the GPUs"):
        _use_gpu("cuda", 2, {"CPU": 8.0, "GPU": 1.0})
    with pytest.raises(ConfigError, match="workers: expected at most 1, the CPUs"):
        _use_gpu("cpu", 2, {"CPU": 1.0})
    with pytest.raises(ConfigError, match="device: expected auto, cpu or cuda"):
        _use_gpu("cuda:1", 2, {"CPU": 8.0, "GPU": 2.0})
