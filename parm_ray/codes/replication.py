"""Replication as the degenerate code: k = 1, and each parity is a copy of the query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from parm_ray.codes.answers import check_answers, check_wanted, longest_output
from parm_ray.codes.base import Array, Batch
from parm_ray.codes.shape import check_count, check_slots
from parm_ray.codes.weights import MAX_R
from parm_ray.core import InvalidInput


class ReplicateEncoder:
    """r copies of the only slot; the "parity model" is another replica of the deployed model.

    Raises InvalidInput naming `k` (only 1) or `r` (1..8).
    """

    name = "replicate"

    def __init__(self, k: int = 1, r: int = 1) -> None:
        if k != 1:
            raise InvalidInput("k", "1 for replicate", k)
        self.k, self.r = 1, check_count("r", r, 1, MAX_R)

    def encode(self, slots: Sequence[Batch], fill: ArrayLike | None = None) -> list[Array]:
        """Return the batch r times: itself where it is C-contiguous, so nothing is copied."""
        return [np.ascontiguousarray(check_slots(slots, 1))] * self.r

    def normalisation(self, row: int, mean: ArrayLike, std: ArrayLike) -> tuple[Array, Array]:
        """Those of the queries."""
        check_count("row", row, 0, self.r - 1)
        return np.asarray(mean, np.float32), np.asarray(std, np.float32)


class CopyDecoder:
    """The first copy's answer is the answer."""

    name = "copy"

    def __init__(self, k: int = 1, r: int = 1) -> None:
        self.k, self.r = k, r

    def recoverable(
        self, present: frozenset[int], answered: frozenset[int], parities: frozenset[int]
    ) -> frozenset[int]:
        """The slot, once any copy has been answered."""
        return present - answered if parities else frozenset()

    def decode(
        self,
        outputs: Sequence[Batch],
        parities: Sequence[Batch],
        lengths: Sequence[int],
        wanted: Sequence[int],
    ) -> Mapping[int, Array]:
        """See `Decoder.decode`. A view of the copy's answer."""
        check_answers(outputs, parities, lengths, self.k, self.r)
        copy = next((p for p in parities if p is not None), None)
        check_wanted(wanted, [0] if copy is not None and outputs[0] is None and lengths[0] else [])
        return {} if copy is None else {slot: copy[: lengths[slot]] for slot in wanted}

    def target(self, row: int, outputs: Sequence[Batch]) -> Array:
        """The deployed model's own output. Raises InvalidInput naming `row` or `outputs`."""
        check_count("row", row, 0, self.r - 1)
        return longest_output(outputs, self.k)

    def parity_output_shape(self, output_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Like the deployed model's."""
        return output_shape
