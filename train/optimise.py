"""The optimiser both kinds of model share, and how training says where it is."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Report = Callable[[int, int, float], None]
"""Called after a step with (steps done, steps in all, loss)."""


def ignore(done: int, total: int, loss: float) -> None:
    """Report to nobody."""


class OneCycle:
    """AdamW whose learning rate rises to `learning_rate` and falls to nothing within `steps`."""

    def __init__(self, net: nn.Module, learning_rate: float, weight_decay: float, steps: int) -> None:
        self._optimiser = torch.optim.AdamW(
            net.parameters(), learning_rate, weight_decay=weight_decay, fused=True
        )
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(
            self._optimiser, max_lr=learning_rate, total_steps=steps
        )

    def step(self, loss: Tensor) -> float:
        """Take one step down `loss` (a scalar) and return its value."""
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self._optimiser.step()
        self._schedule.step()
        return float(loss.detach())
