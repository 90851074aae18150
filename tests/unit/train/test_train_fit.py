import csv
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from train.fit import CHECKPOINT, LOG, Fit, step_generator
from train.recipe import OptimiserRecipe
from train.worker import Worker

STEPS = 6
OPTIMISER = OptimiserRecipe(learning_rate=0.05, seed=3)


class Killed(Exception):
    pass


def net() -> nn.Module:
    """With all that a checkpoint could forget: moments, statistics, random masks."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 2)
        )


def loss_of(net: nn.Module, step: int) -> Tensor:
    seen = torch.randn(8, 4, generator=step_generator(3, step))
    return (net(seen) - seen[:, :2]).square().mean()


def killed_at(last: int):
    def loss(net: nn.Module, step: int) -> Tensor:
        if step == last:
            raise Killed
        return loss_of(net, step)

    return loss


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(
        torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    )


def fit(folder: Path | None, **changed: object) -> Fit:
    return replace(Fit(OPTIMISER, STEPS, folder=folder, identity="this", checkpoint_s=0.0), **changed)


@pytest.mark.parametrize("schedule", ["one_cycle", "constant"])
def test_a_resumed_run_gives_the_very_weights_of_an_uninterrupted_one(tmp_path: Path, schedule: str) -> None:
    optimiser = OPTIMISER.model_copy(update={"schedule": schedule})
    whole = net()
    fit(None, optimiser=optimiser).run(whole, loss_of)
    stopped = net()
    with pytest.raises(Killed):
        fit(tmp_path, optimiser=optimiser).run(stopped, killed_at(4))
    assert not same(stopped, whole)
    torch.manual_seed(99)  # another process starts with another state
    resumed = net()
    steps: list[int] = []
    seconds = fit(tmp_path, optimiser=optimiser, report=lambda done, *_: steps.append(done)).run(
        resumed, loss_of
    )
    assert steps == [5, 6]
    assert same(resumed, whole)
    assert seconds > 0


def test_training_leaves_torchs_own_generator_as_it_was() -> None:
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    fit(None).run(net(), loss_of)
    assert torch.equal(torch.rand(1), expected)


def test_a_checkpoint_of_another_identity_is_not_taken_up(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        fit(tmp_path, identity="that").run(net(), killed_at(4))
    steps: list[int] = []
    trained, whole = net(), net()
    fit(tmp_path, report=lambda done, *_: steps.append(done)).run(trained, loss_of)
    fit(None).run(whole, loss_of)
    assert steps == list(range(1, STEPS + 1))
    assert same(trained, whole)


def test_killed_while_a_checkpoint_is_written_the_one_before_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, resumed = net(), net()
    fit(None).run(whole, loss_of)
    with pytest.raises(Killed):
        fit(tmp_path).run(net(), killed_at(3))
    good = (tmp_path / CHECKPOINT).read_bytes()

    def half(state: object, path: Path) -> None:
        path.write_bytes(good[: len(good) // 2])
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", half)
        with pytest.raises(Killed):
            fit(tmp_path).run(net(), loss_of)
    assert (tmp_path / CHECKPOINT).read_bytes() == good
    fit(tmp_path).run(resumed, loss_of)
    assert same(resumed, whole)


def test_no_checkpoint_before_its_time(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        fit(tmp_path, checkpoint_s=3600.0).run(net(), killed_at(STEPS - 1))
    assert not (tmp_path / CHECKPOINT).exists()


def test_the_log_goes_on_where_it_was(tmp_path: Path) -> None:
    curve = {"validate": lambda net: 0.5, "validate_every": 2}
    with pytest.raises(Killed):
        fit(tmp_path, **curve).run(net(), killed_at(4))
    fit(tmp_path, **curve).run(net(), loss_of)
    with (tmp_path / LOG).open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["2", "4", "6"]
    assert {row["validation"] for row in rows} == {"0.5000"}


def test_validation_sees_the_net_in_eval_mode_and_training_goes_on_in_train_mode() -> None:
    modes: list[bool] = []

    def validate(net: nn.Module) -> float:
        modes.append(net.training)
        return 0.0

    trained = net()
    fit(None, validate=validate, validate_every=3).run(trained, loss_of)
    assert modes == [False, False]
    assert trained.training


def test_only_the_first_worker_writes(tmp_path: Path) -> None:
    one = fit(tmp_path, worker=Worker(rank=1, world=2))
    assert one._path(LOG) is None
    assert fit(tmp_path)._path(LOG) == tmp_path / LOG


def test_workers_draw_apart_and_share_a_step_out() -> None:
    drawn = {
        (seed, rank, step): torch.rand(1, generator=step_generator(seed, step, Worker(rank, 3))).item()
        for seed in range(3)
        for rank in range(3)
        for step in (0, 1, 2**30, 2**31)
    }
    assert len(set(drawn.values())) == 36
    for step in (0, 1, 2**31):  # what models trained with seed 0 have seen
        own = torch.rand(1, generator=torch.Generator().manual_seed(step)).item()
        assert drawn[0, 0, step] == torch.rand(1, generator=step_generator(0, step)).item() == own
    assert [Worker(rank, 3).share(64) for rank in range(3)] == [22, 21, 21]
    assert Worker().share(64) == 64
