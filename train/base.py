"""Trains the deployed model: the one whose answers a parity model later stands in for."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor, nn

from parm_ray.models.torch_loader import Normaliser, build_net
from train.augment import augment
from train.data import Dataset
from train.fit import Fit, step_generator
from train.recipe import DeployedRecipe

_CHUNK = 500


def train_deployed(
    recipe: DeployedRecipe, dataset: Dataset, device: torch.device, make_fit: Callable[[int], Fit]
) -> tuple[nn.Module, float]:
    """Train on the data set's training images; return the net in eval mode on `device`, and seconds.

    make_fit: called with the number of steps. The same recipe, data and torch build on the same
    machine give the same net.
    """
    net = build_net(recipe.net.source(dataset.output_spec.shape[0], slots=None))
    net = net.to(device).to(memory_format=torch.channels_last).train()
    normaliser = Normaliser(dataset.input_spec, dataset.preprocessing, device)
    images = torch.from_numpy(dataset.train_images)
    labels = torch.from_numpy(dataset.train_labels)
    batch = min(recipe.batch, len(images))
    steps_an_epoch = len(images) // batch

    @lru_cache(maxsize=1)
    def order(epoch: int) -> Tensor:
        return torch.randperm(len(images), generator=step_generator(recipe.seed, 2**31 + epoch))

    fit = make_fit(recipe.epochs * steps_an_epoch)
    worker = fit.worker

    def loss_of(net: nn.Module, step: int) -> Tensor:
        epoch, at = divmod(step, steps_an_epoch)
        chosen = order(epoch)[at * batch : (at + 1) * batch][worker.rank :: worker.world]
        generator = step_generator(recipe.seed, step, worker)
        seen = augment(images[chosen], recipe.shift, recipe.flip, generator)
        outputs = net(normaliser.normalise(seen.to(device).float()))
        return dataset.task.loss(outputs, labels[chosen].to(device), recipe.label_smoothing)

    seconds = fit.run(net, loss_of)
    return net.eval(), seconds


def answer(net: nn.Module, normaliser: Normaliser, images: Tensor) -> Tensor:
    """Return what `net` answers to raw `[n, *shape]`: float32 `[n, *output]` on the CPU, no gradient."""
    with torch.no_grad():
        chunks = [
            net(normaliser.normalise(chunk.to(normaliser.device).float())).cpu()
            for chunk in images.split(_CHUNK)
        ]
    return torch.cat(chunks)
