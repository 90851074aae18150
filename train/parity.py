"""Trains the parity model of one row of one code, against the deployed model's answers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from parm_ray.models.loading import fill_of
from parm_ray.models.manifest import CodeSpec, Manifest
from parm_ray.models.torch_loader import build_net, normaliser_of
from train.data import Dataset
from train.export import WEIGHTS, describe
from train.fit import Fit, step_generator
from train.groups import ViewBank, sample_groups
from train.losses import check_loss, parity_loss
from train.ready import net_recipe
from train.recipe import Outputs, ParityRecipe
from train.shared import merge_adapters, share_trunk
from train.torch_codes import TorchEncoder, target_coefficients


def code_spec(recipe: ParityRecipe, row: int) -> CodeSpec:
    """Return the manifest entry of row `row` of the recipe's code."""
    return CodeSpec(encoder=recipe.encoder, decoder=recipe.decoder, k=recipe.k, r=recipe.r, row=row)


def describe_parity(
    recipe: ParityRecipe,
    row: int,
    deployed: Manifest,
    dataset: Dataset,
    outputs: Outputs,
    provenance: dict[str, str],
) -> Manifest:
    """Return the manifest of row `row`'s model, named `<data set>-<directory>`.

    Queries, answers and their normalisation are those of the deployed model, whose manifest is given.
    Raises ConfigError if neither the recipe names a net nor the deployed model's can be made again.
    """
    net = recipe.net or net_recipe(deployed.model)
    name = f"{dataset.name}-{recipe.directory(row)}"
    manifest = describe(name, dataset, net, code_spec(recipe, row), provenance)
    coefficients = target_coefficients(manifest)
    net = net.ending_in(outputs, 1.0 if coefficients is None else float(coefficients.sum()))
    same = {key: getattr(deployed, key) for key in ("input", "output", "preprocessing", "labels")}
    model = net.source(deployed.output.shape[0], recipe.slots, WEIGHTS)
    return manifest.model_copy(update={**same, "model": model})


def train_parity(
    recipe: ParityRecipe,
    manifest: Manifest,
    start: nn.Module,
    bank: ViewBank,
    device: torch.device,
    make_fit: Callable[[int], Fit],
    outputs: Outputs = "logits",
) -> tuple[nn.Module, float]:
    """Train the model that `manifest` (with its `code`) describes; return it as `train_deployed` does.

    Every step draws fresh groups from the bank, the same for all rows of a code, encodes them as the
    front end would, normalises the parity as the replica would, and moves the net towards what the
    decoder wants to hear. start: the net whose tensors it starts from, if the recipe says so. outputs:
    what the bank holds and `manifest`'s model answers. Raises ConfigError if the recipe's loss or trunk
    cannot be had of them.
    """
    assert manifest.code is not None
    net = build_net(manifest.model)
    copied = copy_matching(start, net) if recipe.init_from_deployed else []
    if recipe.trunk == "shared":
        share_trunk(net, copied, recipe.adapted)
    net = net.to(device).to(memory_format=torch.channels_last).train()
    fill = torch.from_numpy(raw_fill(manifest))
    encoder = TorchEncoder(manifest, fill)
    normaliser = normaliser_of(manifest, device)
    coefficients = target_coefficients(manifest)
    check_loss(recipe, coefficients, outputs, bank)
    fit = make_fit(recipe.steps)
    coefficients = None if coefficients is None else coefficients.to(device)

    def loss_of(net: nn.Module, step: int) -> Tensor:
        groups = sample_groups(
            bank,
            recipe.k,
            fit.worker.share(recipe.groups),
            dropout=recipe.slot_dropout,
            fill=fill,
            generator=step_generator(recipe.seed, step, fit.worker),
        ).to(device)
        answers = net(normaliser.normalise(encoder.encode(groups.slots)))
        return parity_loss(recipe, coefficients, answers, groups, outputs)

    seconds = fit.run(net, loss_of)
    return merge_adapters(net).eval(), seconds


def raw_fill(manifest: Manifest) -> np.ndarray:
    """Return the raw input that means "no query here", float32 `[C]`: `fill`, or the rounded mean."""
    return fill_of(manifest).astype(np.float32)


def copy_matching(source: nn.Module, target: nn.Module) -> list[str]:
    """Copy every tensor of `source` that `target` has under the same name and shape; return the names."""
    given = source.state_dict()
    same = {
        name: given[name]
        for name, tensor in target.state_dict().items()
        if name in given and given[name].shape == tensor.shape
    }
    target.load_state_dict(same, strict=False)
    return list(same)
