import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from parm_ray.core.errors import ConfigError, InvalidInput
from parm_ray.models.manifest import CodeSpec, InputSpec, Manifest, ModelSource, Preprocessing, TensorSpec
from parm_ray.models.torch_loader import build_net, load_torch, normaliser_of, pick_device
from parm_ray.models.torch_nets import small_resnet

NETS = "parm_ray.models.torch_nets"
CPU = torch.device("cpu")


class Listing(nn.Module):
    """Answers a list, which no manifest allows."""

    def forward(self, inputs: torch.Tensor) -> list[torch.Tensor]:
        return [inputs]


def manifest(**changes: Any) -> Manifest:
    fields: dict[str, Any] = {
        "name": "m",
        "input": InputSpec(name="x", shape=(12, 10, 3), dtype="uint8", layout="HWC"),
        "output": TensorSpec(name="y", shape=(4,), dtype="float32"),
        "preprocessing": Preprocessing(mean=(10.0, 20.0, 30.0), std=(2.0, 4.0, 8.0)),
        "model": source(f"{NETS}:small_resnet", in_channels=3, num_outputs=4, width=4),
    }
    return Manifest(**{**fields, **changes})


def source(factory: str, **kwargs: object) -> ModelSource:
    return ModelSource(factory=factory, kwargs=kwargs, weights="weights.safetensors")


def write(net: nn.Module, directory: Path) -> None:
    save_file(net.state_dict(), directory / "weights.safetensors")


def trained(**kwargs: Any) -> nn.Module:
    """A net whose weights and batch-norm statistics are not the ones a factory gives."""
    net = small_resnet(in_channels=3, num_outputs=4, width=4, seed=9, **kwargs)
    net.train()(torch.randn(8, 3, 12, 10))
    return net.eval()


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (5, 12, 10, 3), dtype=np.uint8)


def test_answers_as_the_net_in_memory(tmp_path: Path, images: np.ndarray) -> None:
    net = trained()
    write(net, tmp_path)
    predictor = load_torch(manifest(), tmp_path, "cpu")
    predictor.warm_up(batch_size=5)
    images.setflags(write=False)  # as Ray hands out arrays
    answers = predictor.predict(images)
    scaled = (images.astype(np.float32) - [10, 20, 30]) / [2, 4, 8]
    with torch.no_grad():
        expected = net(torch.tensor(scaled, dtype=torch.float32).permute(0, 3, 1, 2))
    assert answers.dtype == np.float32
    np.testing.assert_allclose(answers, expected, atol=1e-5)


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "float32", "float64"])
def test_takes_any_real_dtype(tmp_path: Path, images: np.ndarray, dtype: str) -> None:
    write(trained(), tmp_path)
    predictor = load_torch(manifest(), tmp_path, "cpu")
    np.testing.assert_allclose(predictor.predict(images.astype(dtype)), predictor.predict(images), atol=1e-5)


def test_layouts_normalise_per_channel(images: np.ndarray) -> None:
    hwc = normaliser_of(manifest(), CPU)(images)
    chw = InputSpec(name="x", shape=(3, 12, 10), dtype="uint8", layout="CHW")
    turned = normaliser_of(manifest(input=chw), CPU)(images.transpose(0, 3, 1, 2))
    assert torch.allclose(hwc, turned)
    one = Preprocessing(mean=(7.0,), std=(2.0,))
    flat = manifest(input=InputSpec(name="x", shape=(6,), dtype="float32"), preprocessing=one)
    assert torch.allclose(normaliser_of(flat, CPU)(np.full((2, 6), 11.0)), torch.full((2, 6), 2.0))


def test_channels_last_net_gets_hwc(images: np.ndarray) -> None:
    preprocessing = Preprocessing(channels_first=False)
    given = normaliser_of(manifest(preprocessing=preprocessing), CPU)(images)
    assert given.shape == images.shape


@pytest.mark.parametrize(("encoder", "decoder", "k"), [("sum", "subtract", 3), ("concat", "slot", 2)])
def test_a_parity_of_mean_images_normalises_to_nothing(encoder: str, decoder: str, k: int) -> None:
    from parm_ray.models.loading import code_of

    spec = manifest(code=CodeSpec(encoder=encoder, decoder=decoder, k=k))
    mean = np.broadcast_to(np.array([10, 20, 30], np.uint8), (2, 12, 10, 3))
    parity = code_of(spec).encode([mean] * k)[0]
    assert normaliser_of(spec, CPU)(parity).abs().max() < 1e-5


def test_weighted_rows_normalise_by_their_own_weights() -> None:
    from parm_ray.models.loading import code_of

    mean = np.broadcast_to(np.array([10, 20, 30], np.uint8), (1, 12, 10, 3))
    for row in (0, 1):
        spec = manifest(code=CodeSpec(encoder="weighted", decoder="subtract", k=2, r=2, row=row))
        parity = code_of(spec).encode([mean] * 2)[row]
        assert normaliser_of(spec, CPU)(parity).abs().max() < 1e-4


def test_slot_parity_answers_k_outputs_a_row(tmp_path: Path, images: np.ndarray) -> None:
    write(trained(slots=2), tmp_path)
    model = source(f"{NETS}:small_resnet", in_channels=3, num_outputs=4, width=4, slots=2)
    spec = manifest(code=CodeSpec(encoder="concat", decoder="slot", k=2), model=model)
    predictor = load_torch(spec, tmp_path, "cpu")
    predictor.warm_up(3)
    assert predictor.predict(images).shape == (5, 2, 4)


@pytest.mark.parametrize("name", ["weights.pt", "weights.pth", "model.bin", "state.pkl"])
def test_pickled_weights_are_refused_unopened(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(pickle.dumps(pytest.fail))
    model = manifest().model.model_copy(update={"weights": name})
    with pytest.raises(ConfigError, match=r"safetensors.*can run code"):
        load_torch(manifest(model=model), tmp_path, "cpu")


def test_a_pickle_with_the_right_ending_is_refused(tmp_path: Path) -> None:
    torch.save(trained().state_dict(), tmp_path / "weights.safetensors")
    with pytest.raises(ConfigError, match="cannot read the weights"):
        load_torch(manifest(), tmp_path, "cpu")


@pytest.mark.parametrize("weights", ["../weights.safetensors", "/etc/weights.safetensors"])
def test_weights_outside_the_artefact_are_refused(tmp_path: Path, weights: str) -> None:
    model = manifest().model.model_copy(update={"weights": weights})
    with pytest.raises(ConfigError, match="outside the artefact"):
        load_torch(manifest(model=model), tmp_path, "cpu")


def test_a_state_dict_that_does_not_fit_is_spelled_out(tmp_path: Path) -> None:
    state = trained(slots=2).state_dict()
    state["extra"] = state.pop("stem.0.weight")
    save_file(state, tmp_path / "weights.safetensors")
    with pytest.raises(ConfigError) as caught:
        load_torch(manifest(), tmp_path, "cpu")
    message = str(caught.value)
    assert "1 missing (stem.0.weight)" in message
    assert "1 unknown (extra)" in message
    assert "2 wrong shape (head.linear.weight (8, 256) instead of (4, 256)" in message


def test_torchvision_by_name(tmp_path: Path) -> None:
    from torchvision.models import resnet18

    net = resnet18(num_classes=10).eval()
    write(net, tmp_path)
    spec = manifest(
        input=InputSpec(name="x", shape=(32, 32, 3), dtype="uint8", layout="HWC"),
        output=TensorSpec(name="y", shape=(10,), dtype="float32"),
        preprocessing=Preprocessing(),
        model=ModelSource(torchvision="resnet18", kwargs={"num_classes": 10}, weights="weights.safetensors"),
    )
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    with torch.no_grad():
        expected = net(torch.from_numpy(images).float().permute(0, 3, 1, 2))
    np.testing.assert_allclose(
        load_torch(spec, tmp_path, "cpu").predict(images), expected, rtol=1e-3, atol=1e-2
    )


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ModelSource(torchvision="resnet19"), "resnet19"),
        (ModelSource(factory="nowhere.at_all:net"), "cannot be imported"),
        (ModelSource(factory=f"{NETS}:nothing"), "cannot be imported"),
        (ModelSource(factory=f"{NETS}:mlp", kwargs={"depht": 3}), "depht"),
        (ModelSource(factory="builtins:dict"), "not an nn.Module"),
    ],
)
def test_a_net_that_cannot_be_built(model: ModelSource, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_net(model)


def test_nets_without_weights_are_alike_in_every_replica() -> None:
    model = ModelSource(torchvision="squeezenet1_1", kwargs={"num_classes": 2})
    first, second = build_net(model).state_dict(), build_net(model).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_output_and_input_must_be_what_the_manifest_says(tmp_path: Path, images: np.ndarray) -> None:
    write(trained(), tmp_path)
    wrong = manifest(output=TensorSpec(name="y", shape=(5,), dtype="float32"))
    with pytest.raises(
        ConfigError, match=r"output: the manifest says shape \(1, 5\), the net gave shape \(1, 4\)"
    ):
        load_torch(wrong, tmp_path, "cpu").warm_up()
    with pytest.raises(InvalidInput, match=r"\[b, 12, 10, 3\]"):
        load_torch(manifest(), tmp_path, "cpu").predict(images[0])
    listing = manifest(model=ModelSource(factory=f"{__name__}:Listing"))
    with pytest.raises(ConfigError, match="the net gave a list"):
        load_torch(listing, tmp_path, "cpu").warm_up()
    flat = manifest(input=InputSpec(name="x", shape=(7,), dtype="float32"), preprocessing=Preprocessing())
    with pytest.raises(ConfigError, match="the net cannot take"):
        load_torch(flat, tmp_path, "cpu").warm_up()


def test_mean_must_fit_the_channels() -> None:
    with pytest.raises(ConfigError, match=r"preprocessing.mean: expected 1 or 3 values, got 2"):
        normaliser_of(manifest(preprocessing=Preprocessing(mean=(1.0, 2.0))), CPU)


def test_devices_and_threads(tmp_path: Path) -> None:
    assert pick_device("auto").type in ("cpu", "cuda")
    with pytest.raises(ConfigError, match="device"):
        pick_device("gpu please")
    with pytest.raises(ConfigError, match="CUDA devices"):
        pick_device("cuda:99")
    write(trained(), tmp_path)
    before = torch.get_num_threads()
    try:
        load_torch(manifest(), tmp_path, "cpu", threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
