"""`train` runs from the checkout and is not installed; find it however pytest was started."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> "tuple[Path, list]":
    """The tiny recipe, carried out once: (OUT, rows)."""
    from train.pipeline import Run
    from train.recipe import load_recipe

    out = tmp_path_factory.mktemp("artifacts")
    return out, Run(load_recipe("tiny"), out, device="cpu", command="pytest").rows()


@pytest.fixture(scope="session")
def tiny_pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artefacts of a small convolutional net on the 8x8 digits, barely trained."""
    from train.pipeline import Run
    from train.recipe import Recipe

    net = {"factory": "parm_ray.models.torch_nets:small_resnet", "kwargs": {"in_channels": 1, "width": 4}}
    parity = {"encoder": "concat", "decoder": "slot", "k": 2, "loss": "distillation", "steps": 5, "views": 1}
    recipe = Recipe.model_validate(
        {
            "name": "pictures",
            "dataset": "digits",
            "test_size": 100,
            "threads": 1,
            "evaluation_rounds": 1,
            "deployed": {"net": net, "epochs": 1},
            "parities": [parity],
        }
    )
    out = tmp_path_factory.mktemp("pictures")
    Run(recipe, out, device="cpu", command="pytest").rows()
    return out / "digits"
