"""What a replica runs. A predictor is built once, warmed up, then called from one thread."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Predictor(Protocol):
    """A model behind numpy arrays."""

    def predict(self, batch: NDArray[np.generic]) -> NDArray[np.generic]:
        """Map `[b, *input shape]` (raw, not normalised) to `[b, *output shape]`. May block."""
