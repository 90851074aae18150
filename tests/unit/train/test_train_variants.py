"""Recipes beyond the plain one: probabilities, shared trunks, ready deployed models, recorded queries."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from parm_ray.core.errors import ConfigError
from parm_ray.models.loading import load_predictor
from parm_ray.models.manifest import Manifest, load_manifest, save_manifest
from parm_ray.models.torch_loader import build_net
from parm_ray.models.torch_nets import mlp, small_resnet
from parm_ray.models.torch_probabilities import probabilities
from parm_ray.models.torch_zoo import lenet5, resnet
from train.data import load_dataset
from train.logged import load_logged, logged_digest
from train.parity import copy_matching
from train.pipeline import Run
from train.ready import load_ready, net_recipe
from train.recipe import Recipe
from train.shared import AdaptedConv2d, merge_adapters, share_trunk

MLP = {"factory": "parm_ray.models.torch_nets:mlp", "kwargs": {"in_features": 64, "width": 16, "depth": 1}}
RESNET = {
    "factory": "parm_ray.models.torch_nets:small_resnet",
    "kwargs": {"in_channels": 1, "width": 4, "grid": 2},
}
SUM = {"encoder": "sum", "decoder": "subtract", "k": 2, "steps": 4, "groups": 8, "loss": "mse", "views": 1}
SLOT = SUM | {"encoder": "concat", "decoder": "slot", "loss": "distillation"}


def recipe(*parities: dict, net: dict = MLP, **changed: object) -> Recipe:
    given = {
        "name": "micro",
        "dataset": "digits",
        "test_size": 1697,
        "threads": 1,
        "evaluation_rounds": 1,
        "deployed": {"net": net, "epochs": 1, "batch": 50},
        "parities": parities,
    }
    return Recipe.model_validate(given | changed)


# Probabilities


def test_a_net_of_probabilities_has_the_tensors_of_the_net_of_logits() -> None:
    logits = mlp(in_features=4, num_outputs=3, slots=2).eval()
    net = probabilities(
        factory=MLP["factory"], kwargs={"in_features": 4}, num_outputs=3, slots=2, scale=2.0
    ).eval()
    net.load_state_dict(logits.state_dict(), strict=True)
    seen = torch.rand(5, 4, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(net(seen), 2 * logits(seen).softmax(-1))
    assert torch.equal(net.train()(seen), logits(seen))
    with pytest.raises(ConfigError, match="scale: expected above 0"):
        probabilities(factory=MLP["factory"], kwargs={"in_features": 4}, num_outputs=3, scale=0)


def test_served_models_of_a_recipe_on_probabilities_answer_them(tmp_path: Path) -> None:
    asked = recipe(SUM | {"loss": "cross_entropy", "targets": "labels"}, SLOT, outputs="probabilities")
    lines = Run(asked, tmp_path, device="cpu").rows()
    assert [line.model for line in lines] == ["deployed", "sum_subtract_k2", "concat_slot_k2"]
    queries = np.load(tmp_path / "digits" / "queries.npz")["images"][:6]
    for name, total in (("deployed", 1), ("sum_subtract_k2", 2), ("concat_slot_k2", 1)):
        manifest, served = load_predictor(tmp_path / "digits" / name, "cpu")
        assert manifest.output.name == "probabilities"
        answers = served.predict(queries)
        np.testing.assert_allclose(answers.sum(-1), total, rtol=1e-5)
        assert (answers >= 0).all()


def test_label_sums_without_probabilities_are_refused() -> None:
    with pytest.raises(ValueError, match="outputs: probabilities"):
        recipe(SUM | {"loss": "cross_entropy"})
    with pytest.raises(ValueError, match="use loss cross_entropy"):
        recipe(SLOT | {"targets": "labels"})
    with pytest.raises(ValueError, match="init_from_deployed"):
        recipe(SLOT | {"trunk": "shared", "init_from_deployed": False})


def test_defaults_leave_hashes_alone_and_other_values_change_them() -> None:
    plain = recipe(SUM)
    said = recipe(SUM | {"targets": "outputs", "trunk": "trained", "adapted": 0.5}, outputs="logits")
    assert plain.deployed_hash() == said.deployed_hash()
    assert plain.parity_hash(plain.parities[0]) == said.parity_hash(said.parities[0])
    other = recipe(SUM, outputs="probabilities")
    assert other.deployed_hash() != plain.deployed_hash()
    shared = recipe(SUM | {"trunk": "shared"}).parities[0]
    assert plain.parity_hash(shared) != plain.parity_hash(plain.parities[0])


# Shared trunk


def shared(slots: int | None = 2, adapted: float = 0.5) -> tuple[nn.Module, nn.Module]:
    deployed = small_resnet(in_channels=1, num_outputs=5, width=8, seed=1)
    net = small_resnet(in_channels=1, num_outputs=5, width=8, slots=slots)
    share_trunk(net, copy_matching(deployed, net), adapted)
    return deployed, net


def test_a_shared_trunk_starts_as_the_deployed_model() -> None:
    deployed, net = shared(slots=None)
    images = torch.rand(3, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    assert torch.equal(net.eval()(images), deployed.eval()(images))


def trained_share(net: nn.Module) -> float:
    counts = [(p.numel(), p.requires_grad) for p in net.parameters()]
    return sum(n for n, trained in counts if trained) / sum(n for n, _ in counts)


def test_a_step_moves_the_trained_share_alone_and_early_layers_have_no_gradient() -> None:
    deployed, net = shared()
    own = deployed.state_dict()
    images = torch.rand(4, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    early = []
    net.blocks[0].register_forward_hook(lambda module, inputs, output: early.append(output.requires_grad))
    net.train()(images).square().mean().backward()
    assert early == [False]
    trained = [weight for weight in net.parameters() if weight.requires_grad]
    torch.optim.SGD(trained, lr=0.5).step()
    assert 0 < trained_share(net) < 0.35
    moved = {
        name for name, weight in net.named_parameters() if name in own and not torch.equal(weight, own[name])
    }
    assert {name.partition(".")[0] for name in moved} == {"blocks", "head"}
    assert not any("conv" in name for name in moved)
    assert any(module.adapter.any() for module in net.modules() if isinstance(module, AdaptedConv2d))


@pytest.mark.parametrize("build", [small_resnet, lambda **given: resnet(depth=18, **given)])
def test_merged_it_is_the_deployed_models_shape_and_answers_the_same(build) -> None:
    net = build(in_channels=1, num_outputs=5, slots=2)
    names = net.state_dict().keys()
    share_trunk(net, list(names), 1.0)
    generator = torch.Generator().manual_seed(0)
    for module in net.modules():
        if isinstance(module, AdaptedConv2d):
            module.adapter.data = 0.1 * torch.randn(module.adapter.shape, generator=generator)
    images = torch.rand(2, 1, 32, 32, generator=generator)
    before = net.eval()(images)
    merged = merge_adapters(net)
    assert merged.state_dict().keys() == names
    assert not any(isinstance(module, AdaptedConv2d) for module in merged.modules())
    assert torch.allclose(merged(images), before, atol=1e-4, rtol=1e-4)


def test_what_has_no_trunk_to_share_is_refused() -> None:
    net = mlp(in_features=4, num_outputs=2)
    with pytest.raises(ConfigError, match="trunk: shared needs a net with convolutions"):
        share_trunk(net, list(net.state_dict()), 1.0)
    net = lenet5(in_channels=1, num_outputs=2)
    with pytest.raises(ConfigError, match="padded to keep the size"):
        share_trunk(net, list(net.state_dict()), 1.0)
    with pytest.raises(ConfigError, match=r"no stem.0.weight"):
        share_trunk(small_resnet(in_channels=1, num_outputs=2), [], 0.5)


def test_a_recipe_with_a_shared_trunk_serves_a_plain_net(tmp_path: Path) -> None:
    Run(recipe(SLOT | {"trunk": "shared"}, net=RESNET), tmp_path, device="cpu").rows()
    manifest, _ = load_predictor(tmp_path / "digits" / "concat_slot_k2", "cpu")
    assert manifest.model.factory == RESNET["factory"]
    states = [
        load_predictor(tmp_path / "digits" / name, "cpu")[1]._net.state_dict()  # type: ignore[attr-defined]
        for name in ("deployed", "concat_slot_k2")
    ]
    assert torch.equal(states[0]["stem.0.weight"], states[1]["stem.0.weight"])
    assert not torch.equal(states[0]["blocks.2.conv2.weight"], states[1]["blocks.2.conv2.weight"])


# A ready deployed model, and recorded queries


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ready")
    Run(recipe(), out, device="cpu").rows()
    return out / "digits" / "deployed"


@pytest.fixture(scope="module")
def manifest(ready: Path) -> Manifest:
    return load_manifest(ready)


def record(folder: Path, name: str = "queries-0.npz", **arrays: np.ndarray) -> Path:
    folder.mkdir(exist_ok=True)
    np.savez(folder / name, **arrays)
    return folder


IMAGES = np.arange(5 * 64, dtype=np.uint8).reshape(5, 8, 8, 1) % 17


def test_parity_models_of_recorded_queries_need_no_labels(ready: Path, tmp_path: Path) -> None:
    answers = load_predictor(ready, "cpu")[1].predict(IMAGES[:2])
    logged = record(tmp_path / "log", "queries-0.npz", inputs=IMAGES[:2], outputs=answers)
    record(logged, "queries-1.npz", inputs=IMAGES[2:])
    untouched = {path: path.read_bytes() for path in ready.iterdir()}
    asked = recipe(SUM, SLOT | {"hard_share": 0.0}, deployed=None)
    lines = Run(asked, tmp_path / "out", device="cpu", deployed=ready, logged=logged).rows()
    assert [line.cached for line in lines] == [True, False, False]
    assert untouched == {path: path.read_bytes() for path in ready.iterdir()}
    again = Run(asked, tmp_path / "out", device="cpu", deployed=ready, logged=logged).rows()
    assert all(line.cached for line in again)
    record(logged, "queries-2.npz", inputs=IMAGES)
    more = Run(asked, tmp_path / "out", device="cpu", deployed=ready, logged=logged).rows()
    assert not any(line.cached for line in more[1:])


def test_runs_that_cannot_be_are_refused(ready: Path, tmp_path: Path) -> None:
    logged = record(tmp_path / "log", inputs=IMAGES[:1])
    with pytest.raises(ConfigError, match=r"--deployed DIR"):
        Run(recipe(SUM, deployed=None), tmp_path)
    options = {"device": "cpu", "deployed": ready, "logged": logged}
    with pytest.raises(ConfigError, match="at least k = 2 queries, got 1"):
        Run(recipe(SUM, deployed=None), tmp_path, **options).rows()
    record(logged, inputs=IMAGES)
    with pytest.raises(ConfigError, match="no labels"):
        Run(recipe(SLOT, deployed=None), tmp_path, **options).rows()


def test_the_record_is_read_in_order_and_missing_answers_are_asked_for(
    manifest: Manifest, tmp_path: Path
) -> None:
    known = np.full((2, 10), 3, np.float32)
    record(tmp_path, "queries-b.npz", inputs=IMAGES[2:])
    record(tmp_path, "queries-a.npz", inputs=IMAGES[:2], outputs=known)
    before = logged_digest(tmp_path)
    read = load_logged(tmp_path, manifest, lambda inputs: torch.zeros(len(inputs), 10))
    assert np.array_equal(read.inputs.numpy(), IMAGES)
    assert read.outputs[:, 0].tolist() == [3, 3, 0, 0, 0]
    record(tmp_path, "queries-c.npz", inputs=IMAGES)
    assert logged_digest(tmp_path) != before


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": IMAGES}, "expected an array `inputs`, got images"),
        ({"inputs": IMAGES.astype(np.float32)}, "inputs: expected dtype uint8, got float32"),
        ({"inputs": IMAGES[:, :4]}, r"inputs: expected shape \[n, 8, 8, 1\], got \(5, 4, 8, 1\)"),
        ({"inputs": IMAGES[0]}, "inputs: expected shape"),
        ({"inputs": IMAGES, "outputs": np.zeros((5, 10))}, "outputs: expected dtype float32"),
        ({"inputs": IMAGES, "outputs": np.zeros((5, 9), np.float32)}, r"outputs: expected shape \[n, 10\]"),
        ({"inputs": IMAGES, "outputs": np.zeros((4, 10), np.float32)}, "outputs: expected 5 rows"),
        ({"inputs": IMAGES, "outputs": np.full((5, 10), np.nan, np.float32)}, "finite"),
        ({"inputs": np.array([{"code": "run"}], dtype=object)}, "plain arrays"),
    ],
)
def test_wrong_records_name_file_and_array(
    manifest: Manifest, tmp_path: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    record(tmp_path, **arrays)
    with pytest.raises(ConfigError, match=rf"queries-0.npz.*{message}"):
        load_logged(tmp_path, manifest, lambda inputs: torch.zeros(len(inputs), 10))


def test_no_record_and_no_npz_are_refused(manifest: Manifest, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"logged: .* has no files queries-\*.npz"):
        logged_digest(tmp_path)
    (tmp_path / "queries-0.npz").write_bytes(b"PK but no archive")
    with pytest.raises(ConfigError, match=r"queries-0.npz: cannot be read"):
        load_logged(tmp_path, manifest, lambda inputs: torch.zeros(len(inputs), 10))


def test_deployed_artefacts_that_do_not_fit_are_refused(manifest: Manifest, tmp_path: Path) -> None:
    dataset = load_dataset("digits", 1697)
    code = {"encoder": "sum", "decoder": "subtract", "k": 2}
    good = manifest.model_dump(mode="json")
    answers = {"factory": "parm_ray.models.torch_probabilities:probabilities", "weights": "w.safetensors"}
    for changed, message in (
        ({"code": code}, "code: expected null"),
        ({"model": good["model"] | {"weights": None}}, "expected loader torch and weights"),
        (
            {"input": good["input"] | {"shape": [9, 8, 1]}},
            r"input.shape: expected \(8, 8, 1\), the data set's, got \(9, 8, 1\)",
        ),
        ({"model": answers}, "expected outputs: probabilities"),
    ):
        save_manifest(Manifest.model_validate(good | changed), tmp_path)
        with pytest.raises(ConfigError, match=f"deployed: .*{message}"):
            load_ready(tmp_path, dataset, "logits")


def test_more_nets_like_the_deployed_one(manifest: Manifest) -> None:
    plain = net_recipe(manifest.model)
    assert plain.kwargs == MLP["kwargs"]
    for outputs in ("logits", "probabilities"):
        assert net_recipe(plain.ending_in(outputs, 2.0).source(10, None)) == plain
        assert build_net(plain.ending_in(outputs).source(10, 3))(torch.zeros(1, 64)).shape == (1, 3, 10)
    with pytest.raises(ConfigError, match=r"parities.net: .*num_outputs"):
        net_recipe(manifest.model.model_copy(update={"kwargs": {"in_features": 64}}))
