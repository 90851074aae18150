import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from parm_ray.core.errors import ConfigError
from parm_ray.models.loading import load_predictor
from parm_ray.models.manifest import load_manifest
from parm_ray.models.torch_loader import build_net, load_torch, normaliser_of
from train.base import answer
from train.export import describe, export
from train.measure import MEASUREMENT
from train.parity import copy_matching
from train.pipeline import QUERIES, Run
from train.recipe import load_recipe
from train.results import Artefact, Row, load, table_of
from train.run import main
from train.seeds import seed_of, seeded

NAMES = [
    "deployed",
    "sum_subtract_k2",
    "concat_slot_k2",
    "weighted_subtract_k2_r2_row0",
    "weighted_subtract_k2_r2_row1",
]


def test_tiny_reaches_its_floors(tiny: tuple[Path, list[Artefact]]) -> None:
    out, rows = tiny
    assert [row.model for row in rows] == NAMES
    assert [Path(row.path) for row in rows] == [out / "digits" / name for name in NAMES]
    assert not any(row.cached for row in rows)
    assert rows[0].a_a >= 0.95
    for row in rows[1:]:
        assert row.a_d is not None
        assert row.a_d >= 0.92, row
        assert row.a_d_short is not None
        assert row.a_d_short >= 0.90, row
        assert row.a_o_10 == pytest.approx(0.9 * row.a_a + 0.1 * row.a_d)
    both_lost = rows[-1].a_d_r_lost
    assert both_lost is not None
    assert both_lost >= 0.85
    assert table_of(rows).row_count == len(rows)


def test_a_second_run_trains_nothing(tiny: tuple[Path, list[Artefact]]) -> None:
    out, rows = tiny
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    again = Run(load_recipe("tiny"), out, device="cpu").rows()
    assert all(row.cached for row in again)
    assert [(row.model, row.a_d) for row in again] == [(row.model, row.a_d) for row in rows]
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}


def command() -> typer.Typer:
    app = typer.Typer()
    app.command()(main)
    return app


def test_the_command_says_that_nothing_was_to_do(tiny: tuple[Path, list[Artefact]], tmp_path: Path) -> None:
    app, results = command(), tmp_path / "results"
    options = ["--recipe", "tiny", "--out", str(tiny[0]), "--json", "--results", str(results)]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0, done.output
    assert "up to date" in done.stderr
    printed = json.loads(done.stdout)
    assert [row["model"] for row in printed] == NAMES
    wanted = {"encoder", "decoder", "k", "a_a", "a_d", "a_d_by_slot", "agreement"}
    assert wanted | {"a_o_1", "a_o_5", "a_o_10", "seconds"} <= printed[1].keys()
    written = load(results / "tiny.json")
    assert written.rows[0].a_a == pytest.approx(printed[0]["a_a"], abs=1e-5)
    assert written.hardware.threads == 1


@pytest.mark.parametrize(
    "options",
    [
        ["--recipe", "nothing"],
        ["--recipe", "tiny", "--seeds", "0,0"],
        ["--recipe", "tiny", "--seeds", "one"],
        ["--recipe", "tiny", "--measure", "--force"],
        ["--recipe", "tiny", "--logged", "x", "--results", "y"],
        ["--recipe", "tiny", "--deployed", "x", "--seeds", "0,1"],
    ],
)
def test_the_command_refuses(options: list[str]) -> None:
    assert CliRunner().invoke(command(), options).exit_code == 2


def rows_of(out: Path, **options: object) -> tuple[list[Row], Run]:
    rows: list[Row] = []
    run = Run(
        load_recipe("tiny"),
        out,
        device="cpu",
        results=lambda some, hardware: rows.extend(some),
        **options,  # type: ignore[arg-type]
    )
    run.rows()
    return rows, run


def test_rows_of_results_say_what_was_lost(tiny: tuple[Path, list[Artefact]]) -> None:
    rows, _ = rows_of(tiny[0])
    alone, *coded = rows
    assert (alone.encoder, alone.lost, alone.a_d, alone.train_ratio) == (None, 0, None, 1.0)
    assert {row.model for row in rows} == {"mlp"}
    kinds = {(row.encoder, row.decoder, row.lost, row.answered, row.control): row for row in coded}
    assert len(kinds) == len(coded) == 1 + 2 + 5
    both_lost = kinds["weighted", "subtract", 2, (0, 1), None]
    assert both_lost.a_d is not None
    assert both_lost.a_d >= 0.85
    symmetric = kinds["weighted", "subtract", 2, (0, 1), "symmetric"]
    assert symmetric.a_d is not None
    assert symmetric.a_d <= 0.65  # of two answers with one name, one is right
    for row in coded:
        assert row.a_a == alone.a_a
        assert row.top5 is not None
        assert row.top5 >= row.a_d
        assert row.ece is not None
        assert row.gate is not None
        assert row.gate[0][1:] == (1.0, pytest.approx(row.a_d))
        assert row.train_ratio is not None
        assert row.seeds == (0,)


def test_measuring_again_trains_nothing_and_finds_the_same(
    tiny: tuple[Path, list[Artefact]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked_to_train(*args: object) -> None:
        raise TimeoutError

    monkeypatch.setattr("train.pipeline.train_parity", asked_to_train)
    before, _ = rows_of(tiny[0])
    shutil.copytree(tiny[0] / "digits", tmp_path / "digits")
    for name in ("deployed", "sum_subtract_k2"):  # measured in an older way
        path = tmp_path / "digits" / name / MEASUREMENT
        path.write_text(path.read_text().replace('"identity": "', '"identity": "0-'))
    never = tmp_path / "digits" / "concat_slot_k2"  # interrupted after the training
    (never / MEASUREMENT).unlink()
    manifest = json.loads((never / "manifest.json").read_text())
    (never / "manifest.json").write_text(json.dumps(manifest | {"metrics": {}}))
    shutil.rmtree(tmp_path / "digits" / "weighted_subtract_k2_r2_row1")  # not trained yet
    after, run = rows_of(tmp_path, measure_only=True)
    assert run.skipped == ["weighted_subtract_k2_r2_row0", "weighted_subtract_k2_r2_row1"]
    untimed = {"train_minutes": None, "train_ratio": None, "commit": ""}
    known = [row.model_copy(update=untimed) for row in before if row.encoder != "weighted"]
    assert [row.model_copy(update=untimed) for row in after] == known
    assert json.loads((never / "manifest.json").read_text())["metrics"]["a_d"] == known[-1].a_d
    with pytest.raises(TimeoutError):
        rows_of(tmp_path)


def test_measuring_alone_needs_a_deployed_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"measure: .*deployed"):
        rows_of(tmp_path, measure_only=True)


def test_a_seed_is_everywhere_and_has_a_folder_of_its_own() -> None:
    recipe = load_recipe("tiny")
    again, other = seeded(recipe, 0), seeded(recipe, 3)
    assert again.deployed_hash() == recipe.deployed_hash()
    assert (again.folder, other.folder) == (recipe.folder, "digits_seed3")
    assert other.deployed is not None
    assert {other.split_seed, other.deployed.seed, *(p.seed for p in other.parities)} == {3}
    assert (seed_of(recipe), seed_of(other)) == (0, 3)
    assert seeded(other, 0).deployed_hash() == recipe.deployed_hash()
    assert [seeded(other, 0).parity_hash(p) for p in seeded(other, 0).parities] == [
        recipe.parity_hash(p) for p in recipe.parities
    ]
    # The nets start elsewhere, too.
    nets = [build_net(one.deployed.net.source(10, None)) for one in (again, other) if one.deployed]
    assert not torch.equal(*(next(net.parameters()) for net in nets))


def test_artefacts_load_as_the_server_loads_them(tiny: tuple[Path, list[Artefact]]) -> None:
    root = tiny[0] / "digits"
    queries = np.load(root / QUERIES)
    manifest, deployed = load_predictor(root / "deployed", device="cpu", threads=torch.get_num_threads())
    outputs = deployed.predict(queries["images"])
    assert np.mean(outputs.argmax(1) == queries["labels"]) == pytest.approx(manifest.metrics["a_a"])
    for name in NAMES[1:]:
        parity, _ = load_predictor(root / name, device="cpu", threads=torch.get_num_threads())
        assert parity.code is not None
        assert parity.input == manifest.input
        assert parity.output == manifest.output
        assert parity.provenance["command"] == "pytest"
        assert json.loads(parity.provenance["settings"])["encoder"] == parity.code.encoder


def test_export_then_load_answers_as_in_memory(tiny: tuple[Path, list[Artefact]], tmp_path: Path) -> None:
    recipe = load_recipe("tiny")
    dataset = Run(recipe, tmp_path)._dataset
    manifest = describe("m", dataset, recipe.deployed.net, None, {})
    net = build_net(manifest.model).eval()
    export(net, manifest, tmp_path / "m")
    served = load_torch(load_manifest(tmp_path / "m"), tmp_path / "m", "cpu")
    here = answer(net, normaliser_of(manifest, torch.device("cpu")), torch.from_numpy(dataset.test_images))
    np.testing.assert_allclose(served.predict(dataset.test_images), here, atol=1e-5)


def test_parities_of_other_deployed_weights_are_out_of_date(
    tiny: tuple[Path, list[Artefact]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked_to_train(*args: object) -> None:
        raise TimeoutError

    monkeypatch.setattr("train.pipeline.train_parity", asked_to_train)
    shutil.copytree(tiny[0] / "digits", tmp_path / "digits")
    run = Run(load_recipe("tiny"), tmp_path, device="cpu")
    assert all(row.cached for row in run.rows())
    weights = tmp_path / "digits" / "deployed" / "weights.safetensors"
    save_file({name: 2 * tensor for name, tensor in load_file(weights).items()}, weights)
    with pytest.raises(TimeoutError):
        run.rows()


def test_half_written_artefacts_and_force_train_again(
    tiny: tuple[Path, list[Artefact]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked_to_train(*args: object) -> None:
        raise TimeoutError

    monkeypatch.setattr("train.pipeline.train_deployed", asked_to_train)
    with pytest.raises(TimeoutError):
        Run(load_recipe("tiny"), tiny[0], device="cpu", force=True).rows()
    shutil.copytree(tiny[0] / "digits" / "deployed", tmp_path / "digits" / "deployed")
    for name in ("weights.safetensors", "manifest.json"):
        (tmp_path / "digits" / "deployed" / name).unlink()
        with pytest.raises(TimeoutError):
            Run(load_recipe("tiny"), tmp_path, device="cpu").rows()


def test_start_from_deployed_copies_all_but_a_head_of_other_shape() -> None:
    net = load_recipe("demo").deployed.net
    deployed, slots = build_net(net.source(10, None)), build_net(net.source(10, 4))
    with torch.no_grad():
        for tensor in deployed.parameters():
            tensor.add_(1)
    copied = copy_matching(deployed, slots)
    assert "stem.0.weight" in copied
    assert "head.linear.weight" not in copied
    assert torch.equal(slots.state_dict()["stem.0.weight"], deployed.state_dict()["stem.0.weight"])


def test_an_unknown_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="device"):
        Run(load_recipe("tiny"), tmp_path, device="abacus")
