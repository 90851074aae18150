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
