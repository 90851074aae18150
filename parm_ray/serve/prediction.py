"""What a caller gets back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parm_ray.core import Outcome


@dataclass(frozen=True, slots=True)
class Prediction:
    """One query's answer. `output` has the model's per-query output shape and dtype.

    outcome: original (the deployed model's own answer), copy (the deployed model's, from a second
    call), reconstructed (decoded from a parity model's answer, approximate), backup (a smaller
    model's) or default. group, slot: where the query stood. lateness_ms: how long after its hold-off
    the stand-in answer was used; 0 for the deployed model's.
    """

    output: NDArray[np.generic]
    outcome: Outcome
    group: int
    slot: int
    lateness_ms: float = 0.0

    @property
    def reconstructed(self) -> bool:
        """Whether the answer is a reconstruction."""
        return self.outcome is Outcome.RECONSTRUCTED
