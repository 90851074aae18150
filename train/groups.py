"""Random coding groups to train a parity model on, with the deployed model's answers beside them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from parm_ray.models.torch_loader import Normaliser
from train.augment import augment
from train.base import answer


@dataclass(frozen=True)
class ViewBank:
    """Shifted copies (views) of every training image and the deployed model's answer to each.

    images: raw uint8 `[n, H, W, C]`; outputs: float32 `[n, *output]`; labels: `[n, ...]`. Answers
    belong to the very pixels they stand beside, so a target never disagrees with its input; and
    there are so many ways to group the views that answering each of them once is enough.
    """

    images: Tensor
    outputs: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Groups:
    """g groups of k slots. Where `present` (bool `[k, g]`) is False, the slot is empty.

    slots: float32 `[k, g, H, W, C]`, raw units, the fill in empty slots. outputs: float32
    `[k, g, *output]`, 0 in empty slots. labels: `[k, g, ...]`, of no meaning in empty slots.
    """

    slots: Tensor
    outputs: Tensor
    labels: Tensor
    present: Tensor

    def to(self, device: torch.device) -> Groups:
        """Return the same groups on `device`."""
        return Groups(
            self.slots.to(device), self.outputs.to(device), self.labels.to(device), self.present.to(device)
        )


def make_bank(
    net: nn.Module,
    normaliser: Normaliser,
    images: Tensor,
    labels: Tensor,
    *,
    views: int,
    shift: int,
    flip: bool = False,
    generator: torch.Generator,
    outputs: Tensor | None = None,
) -> ViewBank:
    """Make `views` copies of the images, the first as it is and the others augmented; answer them all.

    outputs: answers to the images as they are, where they are known already.
    """
    copies = [images] + [augment(images, shift, flip, generator) for _ in range(views - 1)]
    answered = [answer(net, normaliser, copy) for copy in copies[1:]]
    return ViewBank(
        torch.cat(copies),
        torch.cat([answer(net, normaliser, copies[0]) if outputs is None else outputs, *answered]),
        torch.cat([labels] * views),
    )


def sample_groups(
    bank: ViewBank, k: int, groups: int, *, dropout: float, fill: Tensor, generator: torch.Generator
) -> Groups:
    """Draw k x `groups` views with replacement and empty some slots.

    A share `dropout` of the groups keeps 1 to k-1 slots, any of them: a group that closed early
    lacks its last slots, one whose batches differ in length lacks any. fill: raw, `[C]`.
    """
    chosen = torch.randint(0, len(bank.labels), (k, groups), generator=generator)
    present = draw_present(k, groups, dropout, generator)
    slots = bank.images[chosen].float()
    outputs = bank.outputs[chosen]
    slots[~present] = fill
    outputs[~present] = 0
    return Groups(slots, outputs, bank.labels[chosen], present)


def draw_present(k: int, groups: int, dropout: float, generator: torch.Generator) -> Tensor:
    """Return bool `[k, groups]`: which slots hold a query. At least one does in every group."""
    kept = torch.full((groups,), k)
    short = torch.rand(groups, generator=generator) < dropout
    kept[short] = torch.randint(1, k, (int(short.sum()),), generator=generator)
    rank = torch.rand(k, groups, generator=generator).argsort(dim=0).argsort(dim=0)
    return rank < kept
