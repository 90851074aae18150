"""The rivals of an untrained deployed model: artefacts are what replicas load, rows what they do."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from parm_ray.codes.learned import LearnedDecoder, LearnedEncoder
from parm_ray.core.errors import ConfigError
from parm_ray.models.loading import code_of, load_predictor
from parm_ray.models.manifest import load_manifest
from parm_ray.models.torch_loader import build_net, load_weights, normaliser_of
from train.backup import default_accuracy
from train.data import load_dataset
from train.evaluate import predict_all
from train.export import WEIGHTS, describe, export
from train.fit import Fit
from train.groups import make_bank, sample_groups
from train.learned import Coder, LearnedRecipe, coding_loss, train_learned
from train.plain_berrut import measure_plain
from train.recipe import load_recipe
from train.results import load
from train.rival_rows import CODER, Rivals

CPU = torch.device("cpu")
RECIPE = load_recipe("tiny")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the tiny recipe's deployed artefact, its weights as they were drawn."""
    assert RECIPE.deployed is not None
    out = tmp_path_factory.mktemp("artifacts")
    dataset = load_dataset(RECIPE.dataset, RECIPE.test_size, RECIPE.split_seed)
    made_by = {"recipe_hash": RECIPE.deployed_hash()}
    manifest = describe(RECIPE.dataset, dataset, RECIPE.deployed.net, None, made_by)
    export(build_net(manifest.model), manifest, out / (RECIPE.folder or RECIPE.dataset) / "deployed")
    return out


@pytest.fixture(scope="module")
def folder(out: Path) -> Path:
    return out / (RECIPE.folder or RECIPE.dataset)


@pytest.fixture
def rivals(out: Path) -> Rivals:
    return Rivals(RECIPE, out, device="cpu", steps=3)


def same_weights(one: Path, two: Path) -> bool:
    return (one / WEIGHTS).read_bytes() == (two / WEIGHTS).read_bytes()


def test_berrut_is_the_deployed_model_asked_a_parity(rivals: Rivals, folder: Path) -> None:
    row = rivals.row("berrut_berrut_k2")
    assert (row.encoder, row.decoder, row.k, row.r, row.lost) == ("berrut", "berrut", 2, 1, 1)
    assert row.a_d == pytest.approx(np.mean(row.a_d_by_slot))
    assert row.a_o_10 == pytest.approx(0.9 * row.a_a + 0.1 * row.a_d)
    assert all(ratio and ratio > 0 for ratio in (row.encode_ratio, row.decode_ratio, row.stand_in_ratio))
    assert row.train_minutes is None
    assert same_weights(folder / "berrut_berrut_k2", folder / "deployed")
    _, parity = load_predictor(folder / "berrut_berrut_k2", "cpu")
    _, deployed = load_predictor(folder / "deployed", "cpu")
    query = np.full((1, 8, 8, 1), 3, np.uint8)
    np.testing.assert_array_equal(parity.predict(query.astype(np.float32)), deployed.predict(query))


def test_learned_is_trained_once_and_served_from_its_artefact(
    rivals: Rivals, out: Path, folder: Path
) -> None:
    row = rivals.row("learned_learned_k2")
    directory = folder / "learned_learned_k2"
    assert row.train_minutes is not None
    assert row.trained_on
    assert same_weights(directory, folder / "deployed")
    code = code_of(load_manifest(directory))
    assert code.name == "learned/learned"
    trained = (directory / CODER).read_bytes()
    again = Rivals(RECIPE, out, device="cpu", steps=3).row("learned_learned_k2")
    assert (again.a_d, again.train_minutes) == (row.a_d, row.train_minutes)
    assert (directory / CODER).read_bytes() == trained
    other = Rivals(RECIPE, out, device="cpu", steps=4).row("learned_learned_k2")
    assert other.recipe_hash != row.recipe_hash
    assert (directory / CODER).read_bytes() != trained


def test_numpy_serves_what_torch_trained(folder: Path, tmp_path: Path) -> None:
    manifest = load_manifest(folder / "deployed")
    coder = Coder(LearnedRecipe(k=3, encoder_hidden=9, decoder_hidden=8), manifest)
    coder.file().save(tmp_path / CODER)
    encoder = LearnedEncoder(3, weights=tmp_path / CODER)
    random = np.random.default_rng(0)
    slots = random.integers(0, 17, (3, 5, 8, 8, 1)).astype(np.uint8)
    outputs = random.normal(size=(3, 5, 10)).astype(np.float32)
    answer = random.normal(size=(5, 10)).astype(np.float32)
    known = torch.ones(3, 5, dtype=torch.bool)
    known[1] = False
    with torch.no_grad():
        parity = coder.encode(torch.from_numpy(slots).float()).numpy()
        rebuilt = coder.decode(torch.from_numpy(outputs), torch.from_numpy(answer), known)[1].numpy()
    np.testing.assert_allclose(encoder.encode(list(slots))[0], parity, rtol=1e-4, atol=1e-4)
    own = [outputs[0], None, outputs[2]]
    decoded = LearnedDecoder(encoder.file).decode(own, [answer], [5] * 3, [1])[1]
    np.testing.assert_allclose(decoded, rebuilt, rtol=1e-4, atol=1e-5)


def test_training_learns_and_leaves_the_deployed_model_as_it_was(folder: Path) -> None:
    manifest = load_manifest(folder / "deployed")
    deployed = build_net(manifest.model).eval()
    load_weights(deployed, folder / "deployed" / WEIGHTS)
    before = {name: tensor.clone() for name, tensor in deployed.state_dict().items()}
    normaliser = normaliser_of(manifest, CPU)
    images = torch.randint(
        0, 17, (64, 8, 8, 1), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    labels = torch.arange(64) % 10
    bank = make_bank(deployed, normaliser, images, labels, views=1, shift=0, generator=torch.Generator())
    recipe = LearnedRecipe(k=2, steps=40, groups=16, encoder_hidden=32, hard_share=0.0, learning_rate=0.01)
    fill, generator = torch.zeros(1), torch.Generator().manual_seed(1)
    groups = sample_groups(bank, 2, 64, dropout=0.1, fill=fill, generator=generator)

    def loss(coder: Coder) -> float:
        with torch.no_grad():
            parity = deployed(normaliser.normalise(coder.encode(groups.slots)))
            return float(coding_loss(recipe, coder, groups, parity))

    coder, _ = train_learned(recipe, manifest, deployed, bank, normaliser, lambda n: Fit(recipe, n))
    assert loss(coder) < 0.8 * loss(Coder(recipe, manifest))
    assert all(torch.equal(tensor, before[name]) for name, tensor in deployed.state_dict().items())
    assert all(weight.requires_grad and weight.grad is None for weight in deployed.parameters())


def test_backup_answers_queries_itself(rivals: Rivals, folder: Path) -> None:
    row = rivals.row("backup")
    assert (row.encoder, row.decoder, row.k, row.parity_model) == (None, "backup", None, "small_resnet")
    _, backup = load_predictor(folder / "backup", "cpu")
    data = load_dataset(RECIPE.dataset, RECIPE.test_size, RECIPE.split_seed)
    own = predict_all(backup, data.test_images).argmax(axis=-1) == data.test_labels
    assert row.a_d == pytest.approx(own.mean())


class Linear:
    """A model that is linear in its query: the pixels themselves are the logits."""

    def predict(self, batch: np.ndarray) -> np.ndarray:
        return batch.reshape(len(batch), -1).astype(np.float32)


def test_plain_berrut_loses_nothing_of_a_linear_model_at_two_and_something_at_four() -> None:
    labels = np.arange(40) % 5
    images = np.random.default_rng(0).integers(0, 100, (40, 5, 1, 1)).astype(np.uint8)
    images[np.arange(40), labels] = 120
    two = measure_plain(2, Linear(), images, labels, rounds=2)
    assert (two.all_answered, two.mean, two.worst, two.by_slot) == (1, 1, 1, (1, 1))
    four = measure_plain(4, Linear(), images, labels, rounds=2)
    assert four.worst <= four.mean < 1
    assert four.mean == pytest.approx(np.mean(four.by_slot))


def test_default_answer_is_the_commonest_class() -> None:
    assert default_accuracy(np.array([0, 1, 1, 2]), np.array([1, 1, 0, 2, 2])) == 0.4


def test_names_what_is_wrong(rivals: Rivals, tmp_path: Path) -> None:
    assert rivals.chosen(["default", "berrut_berrut_k4"]) == ["berrut_berrut_k4", "default"]
    with pytest.raises(ConfigError, match=r"^only: no rival xor; there are berrut_berrut_k2"):
        rivals.chosen(["xor"])
    with pytest.raises(ConfigError, match=r"manifest.json"):
        Rivals(RECIPE, tmp_path)
    with pytest.raises(ConfigError, match=r"^outputs: expected logits"):
        Rivals(RECIPE.model_copy(update={"outputs": "probabilities"}), tmp_path)


def test_another_recipes_deployed_model_is_refused(out: Path) -> None:
    # It may have been trained on what is a test query here.
    with pytest.raises(ConfigError, match="not the deployed model of recipe tiny"):
        Rivals(RECIPE.model_copy(update={"split_seed": 1}), out, device="cpu")


def test_command_puts_rows_into_the_recipes_file(out: Path, tmp_path: Path) -> None:
    import typer

    from train import rivals as command

    app = typer.Typer()
    app.command()(command.main)
    common = ["--recipe", "tiny", "--out", str(out), "--results", str(tmp_path), "--device", "cpu"]
    for only in ("default", "plain_berrut_k2"):
        done = CliRunner().invoke(app, [*common, "--only", only])
        assert done.exit_code == 0, done.output
    kept = load(tmp_path / "tiny_rivals.json")
    assert [row.decoder for row in kept.rows] == ["default", "plain_berrut"]
    assert json.loads((tmp_path / "tiny_rivals.json").read_text())["rows"][1]["a_d_worst"] is not None
    assert CliRunner().invoke(app, [*common, "--only", "xor"]).exit_code == 2
