"""A parity model on the deployed model's own trunk: convolutions kept, small adapters trained.

Beside a kept 3x3 convolution lies a trained 1x1 one (parallel adapters: Rebuffi, Bilen and Vedaldi
2018, "Efficient parametrization of multi-domain deep neural networks"). Since a 1x1 convolution is
what the middle of a 3x3 kernel does, the two become one when training is over: what is served is the
deployed net's shape and cost. Layers before the first adapter have no gradient at all, only the
statistics of their batch norms follow the parities; so the backward pass ends early.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from parm_ray.core.errors import ConfigError


class AdaptedConv2d(nn.Conv2d):
    """A kept convolution and a trained 1x1 one beside it, of the same stride and groups, at first zero.

    Its `weight` and `bias` are `conv`'s and keep their names.
    """

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__(**_shape(conv))
        self.weight, self.bias = conv.weight, conv.bias
        self.adapter = nn.Parameter(torch.zeros_like(conv.weight[:, :, :1, :1]))

    def forward(self, input: Tensor) -> Tensor:
        """Map `[b, in_channels, h, w]` as `conv` would, plus the adapter's answer."""
        beside = functional.conv2d(input, self.adapter, None, self.stride, 0, 1, self.groups)
        return super().forward(input) + beside

    def merged(self) -> nn.Conv2d:
        """Return the one convolution that answers as the two."""
        conv = nn.Conv2d(**_shape(self))
        weight = self.weight.detach().clone()
        weight[:, :, weight.shape[2] // 2, weight.shape[3] // 2] += self.adapter.detach()[:, :, 0, 0]
        conv.weight, conv.bias = nn.Parameter(weight), self.bias
        return conv


def share_trunk(net: nn.Module, copied: Collection[str], adapted: float) -> None:
    """Keep what `net` has of the deployed model; leave to train its head and adapters, made here.

    copied: names of the deployed model's tensors in `net`. adapted: the share of the convolutions,
    the last ones, in whose reach adapters, batch norms and biases are trained; earlier layers are
    kept as they are, but for batch norms' statistics. Linear layers are trained wherever they are.
    Raises ConfigError if a kept tensor is not the deployed model's, or if nothing could be adapted.
    """
    modules = list(net.named_modules())
    convolutions = [name for name, module in modules if isinstance(module, nn.Conv2d)]
    first = len(convolutions) - round(adapted * len(convolutions))
    reached = False
    kept, adapters = [], 0
    for name, module in modules:
        reached |= first < len(convolutions) and name == convolutions[first]
        if isinstance(module, nn.Linear):
            continue
        own = dict(module.named_parameters(recurse=False))
        if isinstance(module, nn.Conv2d) or not reached:
            for part, parameter in own.items():
                parameter.requires_grad_(False)
                kept.append(f"{name}.{part}")
        if reached and isinstance(module, nn.Conv2d) and _keeps_size(module):
            net.get_submodule(name.rpartition(".")[0]).register_module(
                name.rpartition(".")[2], AdaptedConv2d(module)
            )
            adapters += 1
    strange = [name for name in kept if name not in copied]
    if strange:
        names = ", ".join(strange[:4])
        raise ConfigError(f"trunk: shared, but the deployed model has no {names} of this shape")
    if not adapters:
        raise ConfigError(
            "trunk: shared needs a net with convolutions of odd kernels above 1, padded to keep the "
            f"size, among the last {adapted:g} of them: small_resnet, resnet or vgg11"
        )


def merge_adapters(net: nn.Module) -> nn.Module:
    """Put one convolution in the place of each with an adapter; return `net`, of the deployed shape."""
    for name, module in list(net.named_modules()):
        if isinstance(module, AdaptedConv2d):
            parent, _, own = name.rpartition(".")
            net.get_submodule(parent).register_module(own, module.merged())
    return net


def _shape(conv: nn.Conv2d) -> dict[str, Any]:
    """Return what to call Conv2d with for one of the same shape."""
    names = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups")
    return {name: getattr(conv, name) for name in names} | {"bias": conv.bias is not None}


def _keeps_size(conv: nn.Conv2d) -> bool:
    """Whether the middle of the kernel lies on the pixel that a 1x1 convolution would see."""
    middles = [dilation * (size // 2) for size, dilation in zip(conv.kernel_size, conv.dilation, strict=True)]
    odd = all(size % 2 for size in conv.kernel_size) and max(conv.kernel_size) > 1
    return odd and conv.padding_mode == "zeros" and list(conv.padding) == middles
