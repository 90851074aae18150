"""Two rivals that need no group: a smaller network that answers late queries itself, and no network at all.

Approximate backup: distilled from the deployed model (Hinton, Vinyals, Dean 2015), it answers the very
query, so whatever group or losses there are, A_d is its own accuracy; each query it is asked costs it a
pass of its own, where a parity model of k slots makes one for k. Default answer: always the commonest class.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from parm_ray.models.manifest import Manifest
from parm_ray.models.torch_loader import Normaliser, build_net
from train.fit import Fit, step_generator
from train.groups import ViewBank
from train.losses import distillation
from train.recipe import Count, DistilledRecipe, NetRecipe


class BackupRecipe(DistilledRecipe):
    """How a backup is trained; net: None = a small ResNet of 4, 8 and 16 channels.

    batch: views a step.
    """

    net: NetRecipe | None = None
    steps: Count = 1500
    batch: Count = 128

    def net_for(self, manifest: Manifest) -> NetRecipe:
        """Return the net, one that fits the deployed model's input where the recipe names none."""
        if self.net is not None:
            return self.net
        channels = manifest.input.shape[0 if manifest.input.layout == "CHW" else -1]
        kwargs: dict[str, object] = {"in_channels": channels, "width": 4}
        return NetRecipe(factory="parm_ray.models.torch_nets:small_resnet", kwargs=kwargs)


def train_backup(
    recipe: BackupRecipe,
    manifest: Manifest,
    bank: ViewBank,
    normaliser: Normaliser,
    make_fit: Callable[[int], Fit],
) -> tuple[nn.Module, float]:
    """Train a backup of the deployed model that `manifest` describes; return it in eval mode, and seconds."""
    source = recipe.net_for(manifest).source(manifest.output.shape[0], slots=None)
    net = build_net(source).to(normaliser.device).to(memory_format=torch.channels_last).train()

    def loss_of(net: nn.Module, step: int) -> Tensor:
        generator = step_generator(recipe.seed, step)
        chosen = torch.randint(0, len(bank.labels), (recipe.batch,), generator=generator)
        said = net(normaliser.normalise(bank.images[chosen].to(normaliser.device).float()))
        wanted, labels = bank.outputs[chosen].to(said), bank.labels[chosen].to(said.device)
        if labels.is_floating_point():
            return functional.mse_loss(said, wanted)
        return distillation(
            said, wanted, labels, hard_share=recipe.hard_share, temperature=recipe.temperature
        )

    seconds = make_fit(recipe.steps).run(net, loss_of)
    return net.eval(), seconds


def default_accuracy(train_labels: NDArray[np.int64], test_labels: NDArray[np.int64]) -> float:
    """Return the share of test labels that are the training labels' commonest class."""
    return float(np.mean(test_labels == np.bincount(train_labels).argmax()))
