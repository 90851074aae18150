"""What is kept of a query until it is answered."""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

from parm_ray.core import QueryRecord
from parm_ray.groups.actions import Resolve
from parm_ray.serve.prediction import Prediction

Array = NDArray[np.generic]


class Waiting:
    """One query that waits for its answer."""

    __slots__ = ("array", "future", "submitted")

    def __init__(self, array: Array, future: asyncio.Future[Prediction], submitted: float) -> None:
        self.array: Array | None = array
        self.future = future
        self.submitted = submitted

    def record(self, answer: Resolve, now: float) -> QueryRecord:
        """Return what is remembered of it, once it is answered."""
        return QueryRecord(
            answer.query,
            self.submitted,
            now,
            answer.outcome,
            answer.group,
            answer.slot,
            answer.lateness_s,
            answer.attempts,
            answer.error,
        )
