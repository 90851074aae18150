"""A deployed artefact that is there already, wherever it was trained, to make parity models for."""

from __future__ import annotations

import hashlib
from pathlib import Path

from torch import nn

from parm_ray.core.errors import ConfigError
from parm_ray.models.manifest import FILE_NAME, Manifest, ModelSource, load_manifest
from parm_ray.models.torch_loader import build_net, load_weights
from train.data import Dataset
from train.recipe import PROBABILITIES, NetRecipe, Outputs


def load_ready(directory: Path, dataset: Dataset, outputs: Outputs) -> Manifest:
    """Read the manifest of a deployed model that answers the data set's queries.

    Raises ConfigError naming `deployed` and the field: a parity model's, without torch weights, of
    other inputs or outputs than the data set's, or known to answer something else than `outputs`.
    """
    manifest = load_manifest(directory)
    where = f"deployed: {directory / FILE_NAME}"
    if manifest.code is not None:
        raise ConfigError(f"{where}: code: expected null, a deployed model's; this is a parity model's")
    if manifest.model.loader != "torch" or manifest.model.weights is None:
        raise ConfigError(f"{where}: model: expected loader torch and weights, got {manifest.model!r}")
    for field, found, wanted in (
        ("input.shape", manifest.input.shape, dataset.input_spec.shape),
        ("input.dtype", manifest.input.dtype, dataset.input_spec.dtype),
        ("output.shape", manifest.output.shape, dataset.output_spec.shape),
    ):
        if found != wanted:
            raise ConfigError(f"{where}: {field}: expected {wanted}, the data set's, got {found}")
    if manifest.model.factory == PROBABILITIES and outputs == "logits":
        raise ConfigError(f"{where}: answers probabilities; expected outputs: probabilities in the recipe")
    return manifest


def net_in(directory: Path, manifest: Manifest) -> nn.Module:
    """Build the artefact's net with its weights, in eval mode, on the CPU."""
    net = build_net(manifest.model)
    load_weights(net, weights_of(directory, manifest))
    return net.eval()


def digest_of(directory: Path, manifest: Manifest) -> str:
    """Return 16 hex digits that change with the artefact's weights."""
    return hashlib.sha256(weights_of(directory, manifest).read_bytes()).hexdigest()[:16]


def weights_of(directory: Path, manifest: Manifest) -> Path:
    """Return where the artefact's weights are."""
    assert manifest.model.weights is not None
    return directory / manifest.model.weights


def net_recipe(source: ModelSource) -> NetRecipe:
    """Return what makes more nets like a deployed artefact's, answering logits.

    Raises ConfigError if it cannot be given heads: its factory is called without `num_outputs`.
    """
    kwargs = {name: value for name, value in source.kwargs.items() if name not in ("num_outputs", "slots")}
    if source.factory is None or "num_outputs" not in source.kwargs:
        raise ConfigError(
            "parities.net: the deployed artefact's factory is not called with num_outputs, as slots' heads "
            f"need it ({source.factory or source.torchvision}); name a net for the parity model"
        )
    if source.factory == PROBABILITIES:
        return NetRecipe.model_validate({"factory": kwargs["factory"], "kwargs": kwargs.get("kwargs") or {}})
    return NetRecipe(factory=source.factory, kwargs=kwargs)
