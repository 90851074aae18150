"""Manifests: what is legal, what a wrong one's error says, and that one read back is the one written."""

import json
import math

import pytest
from pydantic import ValidationError

from parm_ray.core.errors import ConfigError
from parm_ray.models.manifest import (
    FILE_NAME,
    CodeSpec,
    InputSpec,
    Manifest,
    ModelSource,
    Preprocessing,
    TensorSpec,
    load_manifest,
    save_manifest,
)

SMALLEST = {
    "name": "m",
    "input": {"name": "image", "shape": [4, 4, 3], "dtype": "uint8", "layout": "HWC"},
    "output": {"name": "logits", "shape": [3], "dtype": "float32"},
    "model": {"factory": "package.module:net"},
}


def changed(path, value):
    """SMALLEST with one key, given as a path with dots, set or (`...`) left out."""
    document = json.loads(json.dumps(SMALLEST))
    *parents, key = path.split(".")
    node = document
    for parent in parents:
        node = node.setdefault(parent, {})
    if value is ...:
        del node[key]
    else:
        node[key] = value
    return document


def written(directory, content):
    (directory / FILE_NAME).write_bytes(
        content if isinstance(content, bytes) else json.dumps(content).encode()
    )
    return directory


def refusal(directory):
    with pytest.raises(ConfigError) as caught:
        load_manifest(directory)
    message = str(caught.value)
    assert message.startswith(f"{directory / FILE_NAME}: ")
    return message


def test_the_smallest_manifest_and_its_defaults(tmp_path):
    manifest = load_manifest(written(tmp_path, SMALLEST))
    assert manifest.input.shape == (4, 4, 3)
    assert manifest.input.numpy_dtype == "uint8"
    assert (manifest.version, manifest.format, manifest.code, manifest.labels) == ("1", 1, None, None)
    assert manifest.preprocessing == Preprocessing(mean=(0.0,), std=(1.0,))
    assert manifest.model.loader == "torch"


def test_a_manifest_read_back_is_the_one_written(tmp_path):
    manifest = Manifest(
        name="wide.resnet+v2_k4-r2",
        version="2024.1",
        input=InputSpec(name="bild-ü", shape=(3, 8, 9), dtype="float32", layout="CHW"),
        output=TensorSpec(name="logits", shape=(2, 5), dtype="float16"),
        preprocessing=Preprocessing(
            mean=(0.1, 1 / 3, -5), std=(1e-9, 2, 3), fill=(1, 2, 3), channels_first=False
        ),
        model=ModelSource(torchvision="resnet18", kwargs={"a": [1, None, "x"]}, weights="w.safetensors"),
        code=CodeSpec(encoder="concat", decoder="slot", k=4, r=2, row=1),
        labels=("één", "猫"),
        metrics={"accuracy": 0.1 + 0.2, "loss": math.inf},
        provenance={"recipe": "ü"},
    )
    path = save_manifest(manifest, tmp_path / "new" / "directory")
    assert path == tmp_path / "new" / "directory" / FILE_NAME
    assert load_manifest(path.parent) == manifest
    assert "bild-ü" in path.read_bytes().decode("utf-8")


def test_a_metric_that_is_no_number_can_be_read_back(tmp_path):
    manifest = Manifest.model_validate({**SMALLEST, "metrics": {"accuracy": math.nan}})
    save_manifest(manifest, tmp_path)
    assert math.isnan(load_manifest(tmp_path).metrics["accuracy"])


BAD = {
    "no name": ("name", ..., "name: Field required"),
    "empty name": ("name", "", "name: "),
    "name with a slash": ("name", "a/b", "name: "),
    "name with a space": ("name", "a b", "name: "),
    "version with a slash": ("version", "1/2", "version: "),
    "unknown key": ("nme", "x", "nme: Extra inputs"),
    "unknown key inside": ("input.nme", "x", "input.nme: Extra inputs"),
    "other format": ("format", 2, "format: "),
    "no input": ("input", ..., "input: Field required"),
    "shape a number": ("input.shape", 4, "input.shape: "),
    "size 0": ("input.shape", [0, 4, 3], "input.shape.0: "),
    "size of a fraction": ("output.shape", [1.5], "output.shape.0: "),
    "dtype": ("input.dtype", "bool", "input.dtype: "),
    "layout": ("input.layout", "NHWC", "input.layout: "),
    "layout of two dims": ("input.shape", [4, 4], "layout HWC needs a shape of 3 dims"),
    "mean NaN": ("preprocessing.mean", [math.nan], "preprocessing.mean.0: "),
    "mean infinite": ("preprocessing.mean", [math.inf], "preprocessing.mean.0: "),
    "std 0": ("preprocessing.std", [1, 0], "preprocessing.std.1: "),
    "std infinite": ("preprocessing.std", [math.inf], "preprocessing.std.0: "),
    "fill of two": ("preprocessing.fill", [1, 2], "preprocessing.fill: expected 1 or 3 values, got 2"),
    "fill of none": ("preprocessing.fill", [], "preprocessing.fill: expected 1 or 3 values, got 0"),
    "fill beyond": (
        "preprocessing.fill",
        [1, 2, 256],
        "preprocessing.fill: expected uint8 values from 0 to 255",
    ),
    "fill below": ("preprocessing.fill", [-1], "preprocessing.fill: expected uint8 values from 0 to 255"),
    "no source": ("model.factory", ..., "exactly one of `factory` and `torchvision`"),
    "two sources": ("model.torchvision", "resnet18", "exactly one of `factory` and `torchvision`"),
    "factory without a colon": ("model.factory", "package.module", "model.factory: "),
    "loader": ("model.loader", "onnx", "model.loader: "),
    "code without a decoder": ("code", {"encoder": "sum", "k": 2}, "code.decoder: Field required"),
    "code of no queries": ("code", {"encoder": "sum", "decoder": "subtract", "k": 0}, "code.k: "),
    "row beyond r": (
        "code",
        {"encoder": "sum", "decoder": "subtract", "k": 2, "r": 2, "row": 2},
        "row: expected 0 to 1 (r = 2), got 2",
    ),
    "metric a string": ("metrics", {"accuracy": "high"}, "metrics.accuracy: "),
    "kwargs a list": ("model.kwargs", [], "model.kwargs: "),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_manifest_is_refused_with_path_and_key(tmp_path, case):
    path, value, words = BAD[case]
    assert words in refusal(written(tmp_path, changed(path, value)))


def test_loader_python_takes_no_torchvision_model(tmp_path):
    document = changed("model", {"loader": "python", "torchvision": "resnet18"})
    assert "loader python takes a `factory`" in refusal(written(tmp_path, document))


def test_every_mistake_is_named_at_once(tmp_path):
    message = refusal(written(tmp_path, {**changed("input.dtype", "x"), "version": 1}))
    assert "input.dtype: " in message
    assert "version: " in message


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1", b"\xff\xfe", json.dumps(SMALLEST).encode("utf-16"), b"[" * 100_000, b"9" * 10_000],
    ids=["empty", "cut", "cut list", "no text", "UTF-16", "deep", "digits"],
)
def test_what_is_no_json_is_refused(tmp_path, content):
    assert "not JSON" in refusal(written(tmp_path, content))


@pytest.mark.parametrize("content", [[], 5, None, "x"])
def test_json_that_is_no_object_is_refused(tmp_path, content):
    assert "manifest: Input should be" in refusal(written(tmp_path, content))


def test_a_missing_manifest_is_refused(tmp_path):
    assert "cannot read the artefact manifest (No such file" in refusal(tmp_path / "nowhere")
    (tmp_path / FILE_NAME).mkdir()
    assert "cannot read the artefact manifest (Is a directory" in refusal(tmp_path)


def test_a_manifest_cannot_be_changed():
    manifest = Manifest.model_validate(SMALLEST)
    with pytest.raises(ValidationError):
        manifest.name = "other"


@pytest.mark.parametrize(
    ("shape", "layout", "dtype", "fill"),
    [
        ([3, 4, 5], "CHW", "uint8", [0, 255, 7]),
        ([4, 5, 3], "HWC", "uint8", [255]),
        ([], None, "int64", [-5]),
        ([7], None, "float32", [0.5] * 7),
        ([2, 7], None, "float16", [-1e9]),
    ],
)
def test_fill_is_one_value_or_one_for_each_channel(shape, layout, dtype, fill):
    document = changed("input", {"name": "x", "shape": shape, "layout": layout, "dtype": dtype})
    document["preprocessing"] = {"fill": fill}
    assert Manifest.model_validate(document).preprocessing.fill == tuple(fill)


def test_the_smallest_code_has_one_query_and_one_row():
    code = CodeSpec(encoder="replicate", decoder="copy", k=1)
    assert (code.k, code.r, code.row) == (1, 1, 0)
