"""Makes a net of logits answer probabilities, under the same tensor names.

A manifest names `probabilities` as its factory and the net of logits in its kwargs. The net keeps its
own names, so the weights of either fit the other, and a parity model can start from a deployed one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from parm_ray.core.errors import ConfigError
from parm_ray.models.manifest import ModelSource
from parm_ray.models.torch_loader import build_net


@dataclass(frozen=True)
class _Ending:
    """A forward hook, so that no tensor is renamed as it would be inside another module."""

    scale: float

    def __call__(self, net: nn.Module, inputs: tuple[Tensor, ...], logits: Tensor) -> Tensor:
        return logits if net.training else self.scale * torch.softmax(logits, dim=-1)


def probabilities(
    *, factory: str, kwargs: Mapping[str, object] | None = None, scale: float = 1.0, **given: object
) -> nn.Module:
    """Build the net that `factory` makes of `kwargs` and `given`, ending in scale x softmax.

    factory: "package.module:callable", a net of logits `[b, classes]` or `[b, slots, classes]`.
    scale: above 0, the sum of the answer's entries; for a linear decoder's parity model the sum of
    its coefficients. In train mode the net answers logits, so that a cross-entropy loses no digits;
    in eval mode, as it is served, probabilities. Raises ConfigError naming scale, or as `build_net` does.
    """
    if not scale > 0:
        raise ConfigError(f"scale: expected above 0, got {scale!r}")
    net = build_net(ModelSource(factory=factory, kwargs={**(kwargs or {}), **given}))
    net.register_forward_hook(_Ending(scale))
    return net
