"""Where a parity model's weights start."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from parm_ray.core.errors import ConfigError
from train.pipeline import Run
from train.recipe import Recipe

NET = {"factory": "parm_ray.models.torch_nets:mlp", "kwargs": {"in_features": 64, "width": 16, "depth": 1}}
SLOT = {"encoder": "concat", "decoder": "slot", "loss": "distillation", "groups": 8, "views": 1}


def recipe(*parities: dict[str, object]) -> Recipe:
    given = {
        "name": "micro",
        "dataset": "digits",
        "test_size": 1697,
        "threads": 1,
        "evaluation_rounds": 1,
        "deployed": {"net": NET, "epochs": 1, "batch": 50},
        "parities": parities,
    }
    return Recipe.model_validate(given)


def test_a_parity_model_can_start_from_another_one(tmp_path: Path) -> None:
    """One step of nearly no length: what comes out is what it started from, where shapes agree."""
    second = {**SLOT, "k": 3, "steps": 1, "learning_rate": 1e-9, "init_from": "concat_slot_k4"}
    chosen = recipe({**SLOT, "k": 4, "steps": 4}, second)
    Run(chosen, tmp_path, device="cpu").rows()
    folder = tmp_path / "digits"
    start, end = (load_file(folder / f"concat_slot_k{k}" / "weights.safetensors") for k in (4, 3))
    shared = [name for name in start if start[name].shape == end[name].shape and "weight" in name]
    assert shared
    for name in shared:
        torch.testing.assert_close(start[name], end[name], rtol=1e-4, atol=1e-6)


def test_without_what_it_starts_from_nothing_is_trained(tmp_path: Path) -> None:
    second = {**SLOT, "k": 3, "steps": 1, "init_from": "concat_slot_k4"}
    chosen = recipe({**SLOT, "k": 4, "steps": 4}, second)
    with pytest.raises(ConfigError, match="init_from"):
        Run(chosen, tmp_path, device="cpu", only=["concat_slot_k3"]).rows()


def test_two_starts_are_one_too_many() -> None:
    start = {"init_from": "concat_slot_k4", "init_from_deployed": False}
    with pytest.raises(ValueError, match="init_from"):
        recipe({**SLOT, "k": 2, "steps": 1, **start})
