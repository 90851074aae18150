"""Whether a model fits the GPU, said before it is moved there rather than as an allocator's error."""

from __future__ import annotations

import torch
from torch import nn

from parm_ray.core.errors import ConfigError

_MIB = 2**20


def bytes_of(net: nn.Module) -> int:
    """Bytes of the net's parameters and buffers. What a forward pass needs on top, warming up shows."""
    return sum(tensor.numel() * tensor.element_size() for tensor in (*net.parameters(), *net.buffers()))


def check_gpu_memory(net: nn.Module, device: torch.device, name: str) -> None:
    """Raise ConfigError if a CUDA device has less memory free than the net takes.

    A replica of a shared pool loads the deployed and all parity models one after the other, so each
    finds what those before it have left.
    """
    if device.type == "cuda":
        check_fits(bytes_of(net), torch.cuda.mem_get_info(device)[0], name)


def check_fits(needed: int, free: int, name: str) -> None:
    """Raise ConfigError if `needed` bytes exceed the `free` ones."""
    if needed > free:
        raise ConfigError(
            f"{name}: its weights take {needed / _MIB:.0f} MiB, the GPU has {free / _MIB:.0f} MiB free. "
            "Fewer replicas a GPU (num_gpus), or plan.pool: dedicated, so that it holds no parity models"
        )
