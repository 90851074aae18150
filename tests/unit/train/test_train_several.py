from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from train.recipe import load_recipe
from train.results import load
from train.several import SMALL, main

RECIPE = """
name: brief
dataset: digits
test_size: 200
evaluation_rounds: 1
threads: 1
deployed:
  net: {factory: "parm_ray.models.torch_nets:mlp", kwargs: {in_features: 64, hidden: [16]}}
  epochs: 1
parities:
  - {encoder: sum, decoder: subtract, k: 2, loss: mse, steps: 5, views: 1}
"""


def run(*options: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(main)
    done = CliRunner().invoke(app, list(options))
    return done.exit_code, done.stderr


def test_every_seed_runs_in_a_process_of_its_own_and_all_rows_are_kept(tmp_path: Path) -> None:
    recipe = tmp_path / "brief.yaml"
    recipe.write_text(RECIPE)
    where = ["--out", str(tmp_path / "out"), "--results", str(tmp_path), "--processes", "2"]
    status, notes = run("--recipes", str(recipe), "--seeds", "0,1", *where)
    assert status == 0, notes
    assert "2 of 2 runs" in notes
    assert [found.seeds for found in load(tmp_path / "brief.json").rows] == [(0, 1), (0, 1)]


def test_what_fails_is_named_and_the_status_says_so(tmp_path: Path) -> None:
    recipe = tmp_path / "brief.yaml"
    recipe.write_text(RECIPE.replace("dataset: digits", "dataset: cifar10"))
    status, notes = run("--recipes", str(recipe), "--seeds", "0", "--out", str(tmp_path / "out"))
    assert status == 1
    assert "error: dataset:" in notes
    assert "failed:" in notes


@pytest.mark.parametrize(("option", "value"), [("--recipes", "none_such"), ("--seeds", "0,x")])
def test_a_wrong_option_is_refused_at_the_door(option: str, value: str) -> None:
    status, notes = run(option, value)
    assert status == 2
    assert value in notes


def test_the_small_recipes_hold_the_same_codes() -> None:
    names = [[parity.directory(0) for parity in load_recipe(name).parities] for name in SMALL]
    assert len(names[0]) == 12
    assert all(others == names[0] for others in names)
