"""Makes a net for small pictures take large ones, under the same tensor names.

For experiments on the network: the queries weigh what photographs weigh, and the answers are a real model's
at the price of the small one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from parm_ray.core.errors import ConfigError
from parm_ray.models.manifest import ModelSource
from parm_ray.models.torch_loader import build_net


@dataclass(frozen=True)
class _Shrink:
    """A forward hook, so that no tensor is renamed as it would be inside another module."""

    scale: int
    channels: int

    def __call__(self, net: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        small = functional.avg_pool2d(inputs[0], self.scale)
        if self.channels > 1:
            small = small.mean(dim=1, keepdim=True)
        return (small, *inputs[1:])


def enlarged(
    *,
    factory: str,
    scale: int,
    channels: int = 1,
    kwargs: Mapping[str, object] | None = None,
    **given: object,
) -> nn.Module:
    """Build the net that `factory` makes of `kwargs` and `given`, behind an average of scale x scale pixels.

    Takes `[b, channels, scale h, scale w]` where the net takes `[b, 1, h, w]`, or with channels = 1
    whatever channels the net takes. Raises ConfigError naming scale or channels, or as `build_net` does.
    """
    if scale < 1:
        raise ConfigError(f"scale: expected >= 1, got {scale!r}")
    if channels < 1:
        raise ConfigError(f"channels: expected >= 1, got {channels!r}")
    net = build_net(ModelSource(factory=factory, kwargs={**(kwargs or {}), **given}))
    net.register_forward_pre_hook(_Shrink(scale, channels))
    return net
