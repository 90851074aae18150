"""Trains an encoder and a decoder end to end through the deployed model, which stays as it is.

"Learning a Code" (Kosaian, Rashmi, Venkataraman 2018): the deployed model itself answers the parity query
that the encoder makes, and the decoder, told which outputs are there, makes the lost one. What comes out is
the file that `parm_ray.codes.learned` serves in numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from parm_ray.codes.learned import CoderFile, Layers
from parm_ray.models.manifest import Manifest
from parm_ray.models.torch_loader import Normaliser
from train.fit import Fit, step_generator
from train.groups import Groups, ViewBank, sample_groups
from train.losses import distillation
from train.parity import raw_fill
from train.recipe import Count, DistilledRecipe, Positive, Share


class LearnedRecipe(DistilledRecipe):
    """How a learned code for k slots is trained.

    encoder_hidden, decoder_hidden: units of the hidden layers, encoder one and decoder two, as published;
    None = as many as the layer's input, k d values of the queries or (k + 1) o + k of the answers, the
    encoder's at most 1,024. Each step reconstructs every slot of `groups` fresh groups and is scored as
    a slot head is: half cross-entropy, half distillation; slot_dropout as in ParityRecipe.
    """

    learning_rate: Positive = 0.001
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    k: Annotated[int, Field(ge=2, le=64)]
    encoder_hidden: Count | None = None
    decoder_hidden: Count | None = None
    steps: Count = 3000
    groups: Count = 64
    slot_dropout: Share = 0.1


class Coder(nn.Module):
    """The two nets, and how a group goes through them and the model between.

    mean, std: raw units, broadcast to a query. Layers are stored as torch stores them, `[out, in]`.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, recipe: LearnedRecipe, manifest: Manifest) -> None:
        super().__init__()
        k, queries, outputs = recipe.k, prod(manifest.input.shape), prod(manifest.output.shape)
        self.k = k
        self.query_shape, self.output_shape = manifest.input.shape, manifest.output.shape
        seen = (k + 1) * outputs + k
        encoder_hidden = recipe.encoder_hidden or min(k * queries, 1024)
        decoder_hidden = recipe.decoder_hidden or seen
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            self.encoder = _mlp(k * queries, encoder_hidden, queries)
            self.decoder = _mlp(seen, decoder_hidden, decoder_hidden, k * outputs)
        for name in ("mean", "std"):
            values = torch.tensor(getattr(manifest.preprocessing, name), dtype=torch.float32)
            values = values[:, None, None] if manifest.input.layout == "CHW" else values
            self.register_buffer(name, values.expand(manifest.input.shape).clone())

    def encode(self, slots: Tensor) -> Tensor:
        """Map raw `[k, g, *query]`, the fill in empty slots, to raw parities `[g, *query]`."""
        queries = ((slots - self.mean) / self.std).transpose(0, 1).flatten(1)
        parity: Tensor = self.encoder(queries).unflatten(1, self.query_shape)
        return parity * self.std + self.mean

    def decode(self, outputs: Tensor, parity: Tensor, known: Tensor) -> Tensor:
        """Map outputs `[k, g, *output]`, of which `known` (bool `[k, g]`) are there, and the model's answer

        to the parity, `[g, *output]`, to reconstructions of all slots, `[k, g, *output]`.
        """
        shown = outputs.flatten(2) * known[..., None]
        seen = [shown.transpose(0, 1).flatten(1), parity.flatten(1), known.T.to(parity.dtype)]
        rebuilt: Tensor = self.decoder(torch.cat(seen, dim=1))
        return rebuilt.unflatten(1, (self.k, *self.output_shape)).transpose(0, 1)

    def file(self) -> CoderFile:
        """Return what is served."""
        return CoderFile(
            k=self.k,
            query_shape=self.query_shape,
            output_shape=self.output_shape,
            mean=_array(self.mean),
            std=_array(self.std),
            encoder=_layers(self.encoder),
            decoder=_layers(self.decoder),
        )


def train_learned(
    recipe: LearnedRecipe,
    manifest: Manifest,
    deployed: nn.Module,
    bank: ViewBank,
    normaliser: Normaliser,
    make_fit: Callable[[int], Fit],
) -> tuple[Coder, float]:
    """Train a coder for the deployed model that `manifest` describes; return it, and seconds.

    deployed: in eval mode on `normaliser.device`; its tensors are not changed, nor do they keep gradients.
    """
    device = normaliser.device
    coder = Coder(recipe, manifest).to(device).train()
    fill = torch.from_numpy(raw_fill(manifest))
    asked = [weight for weight in deployed.parameters() if weight.requires_grad]
    for weight in asked:
        weight.requires_grad_(False)

    def loss_of(net: nn.Module, step: int) -> Tensor:
        assert isinstance(net, Coder)
        generator = step_generator(recipe.seed, step)
        groups = sample_groups(
            bank, recipe.k, recipe.groups, dropout=recipe.slot_dropout, fill=fill, generator=generator
        ).to(device)
        parity = deployed(normaliser.normalise(net.encode(groups.slots)))
        return coding_loss(recipe, net, groups, parity)

    try:
        seconds = make_fit(recipe.steps).run(coder, loss_of)
    finally:
        for weight in asked:
            weight.requires_grad_(True)
    return coder.eval(), seconds


def coding_loss(recipe: LearnedRecipe, coder: Coder, groups: Groups, parity: Tensor) -> Tensor:
    """Lose each slot of every group in turn; return how far the reconstructions are off, a scalar."""
    said, wanted, labels = [], [], []
    for lost in range(recipe.k):
        present = groups.present[lost]
        known = groups.present.clone()
        known[lost] = False
        said.append(coder.decode(groups.outputs, parity, known)[lost][present])
        wanted.append(groups.outputs[lost][present])
        labels.append(groups.labels[lost][present])
    if groups.labels.is_floating_point():
        return functional.mse_loss(torch.cat(said), torch.cat(wanted))
    return distillation(
        torch.cat(said),
        torch.cat(wanted),
        torch.cat(labels),
        hard_share=recipe.hard_share,
        temperature=recipe.temperature,
    )


def _mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _layers(net: nn.Sequential) -> Layers:
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    return tuple((np.ascontiguousarray(_array(layer.weight).T), _array(layer.bias)) for layer in linear)


def _array(tensor: Tensor) -> NDArray[Any]:
    return tensor.detach().cpu().numpy()
