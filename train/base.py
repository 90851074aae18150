"""Trains the deployed model: the one whose answers a parity model later stands in for."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from parm_ray.models.torch_loader import Normaliser, build_net
from train.augment import random_shift
from train.data import Dataset
from train.optimise import OneCycle, Report, ignore
from train.recipe import DeployedRecipe

_CHUNK = 500


def train_deployed(
    recipe: DeployedRecipe, dataset: Dataset, device: torch.device, report: Report = ignore
) -> nn.Module:
    """Train on the data set's training images and return the net in eval mode, on `device`.

    The same recipe, data and torch build on the same machine give the same net.
    """
    net = build_net(recipe.net.source(dataset.output_spec.shape[0], slots=None))
    net = net.to(device).to(memory_format=torch.channels_last).train()
    normaliser = Normaliser(dataset.input_spec, dataset.preprocessing, device)
    images = torch.from_numpy(dataset.train_images)
    labels = torch.from_numpy(dataset.train_labels)
    generator = torch.Generator().manual_seed(recipe.seed)
    batch = min(recipe.batch, len(images))
    steps_an_epoch = len(images) // batch
    total = recipe.epochs * steps_an_epoch
    optimiser = OneCycle(net, recipe.learning_rate, recipe.weight_decay, total)
    for epoch in range(recipe.epochs):
        order = torch.randperm(len(images), generator=generator)
        for step, chosen in enumerate(order.split(batch)[:steps_an_epoch]):
            shifted = random_shift(images[chosen], recipe.shift, generator)
            logits = net(normaliser.normalise(shifted.to(device).float()))
            loss = functional.cross_entropy(
                logits, labels[chosen].to(device), label_smoothing=recipe.label_smoothing
            )
            report(epoch * steps_an_epoch + step + 1, total, optimiser.step(loss))
    return net.eval()


def answer(net: nn.Module, normaliser: Normaliser, images: Tensor) -> Tensor:
    """Return what `net` answers to raw `[n, *shape]`: float32 `[n, *output]` on the CPU, no gradient."""
    with torch.no_grad():
        chunks = [
            net(normaliser.normalise(chunk.to(normaliser.device).float())).cpu()
            for chunk in images.split(_CHUNK)
        ]
    return torch.cat(chunks)
