"""One of several processes that train one net together, and what they settle among themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import torch

T = TypeVar("T")


@dataclass(frozen=True)
class Worker:
    """Which of how many processes this is. Only the first writes.

    With more than one, torch's default process group has to be there (see `train.distributed`).
    """

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the one that writes."""
        return self.rank == 0

    def share(self, count: int) -> int:
        """Return how many of `count` are this worker's; the shares differ by one at most."""
        return count // self.world + (self.rank < count % self.world)

    def agree(self, value: T) -> T:
        """Return the first worker's `value` on every worker, once all have called."""
        if self.world == 1:
            return value
        box = [value]
        torch.distributed.broadcast_object_list(box)
        return box[0]


ALONE = Worker()
