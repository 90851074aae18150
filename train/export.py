"""Writes artefacts: a directory with `weights.safetensors` and, last of all, `manifest.json`."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import save_file
from torch import nn

from parm_ray.models.manifest import FILE_NAME, CodeSpec, Manifest, save_manifest
from train.data import Dataset
from train.recipe import NetRecipe

WEIGHTS = "weights.safetensors"


def describe(
    name: str, dataset: Dataset, net: NetRecipe, code: CodeSpec | None, provenance: dict[str, str]
) -> Manifest:
    """Return the manifest of a model of `dataset`: a deployed one, or a parity one if `code` is given."""
    slots = code.k if code is not None and code.decoder == "slot" else None
    return Manifest(
        name=name,
        input=dataset.input_spec,
        output=dataset.output_spec,
        preprocessing=dataset.preprocessing,
        model=net.source(dataset.output_spec.shape[0], slots, WEIGHTS),
        code=code,
        labels=dataset.class_names or None,
        provenance=provenance,
    )


def export(net: nn.Module, manifest: Manifest, directory: Path) -> None:
    """Write the net's tensors and the manifest into `directory`, made if missing.

    An older manifest goes first and the new one comes last, so that a directory with a manifest
    always holds the weights that it describes.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / FILE_NAME).unlink(missing_ok=True)
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in net.state_dict().items()}
    save_file(state, directory / WEIGHTS)
    save_manifest(manifest, directory)


def add_metrics(manifest: Manifest, metrics: dict[str, float], directory: Path) -> Manifest:
    """Write the manifest again with what was measured; returns it."""
    measured = manifest.model_copy(update={"metrics": metrics})
    save_manifest(measured, directory)
    return measured
