"""Slot decoding: the parity model has k heads, and head j answers for slot j.

Needs no other answer and recovers any number of losses of a group, where subtraction needs all k - 1
others. The idea is collage inference's (Narra et al., 2020) applied to parity models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from parm_ray.codes.answers import check_answers, check_wanted, longest_output
from parm_ray.codes.base import Array, Batch
from parm_ray.codes.shape import check_count
from parm_ray.core import InvalidInput


class SlotDecoder:
    """Reads slot j's answer off head j of the first parity that has arrived, `[b, k, *output]`."""

    name = "slot"

    def __init__(self, k: int, r: int = 1) -> None:
        self.k, self.r = k, r

    def recoverable(
        self, present: frozenset[int], answered: frozenset[int], parities: frozenset[int]
    ) -> frozenset[int]:
        """Every missing slot, once any parity has arrived."""
        return present - answered if parities else frozenset()

    def decode(
        self,
        outputs: Sequence[Batch],
        parities: Sequence[Batch],
        lengths: Sequence[int],
        wanted: Sequence[int],
    ) -> Mapping[int, Array]:
        """See `Decoder.decode`. Of one query: a view of the parity's answer, not a copy."""
        check_answers(outputs, parities, lengths, self.k, self.r)
        heads = next((p for p in parities if p is not None), None)
        missing = [i for i in range(self.k) if lengths[i] and outputs[i] is None]
        check_wanted(wanted, [] if heads is None else missing)
        if heads is None:
            return {}
        if heads.ndim < 2 or heads.shape[1] != self.k:
            raise InvalidInput("parities", f"answers [b, {self.k}, ...], a head per slot", heads.shape)
        return {slot: np.ascontiguousarray(heads[: lengths[slot], slot]) for slot in wanted}

    def target(self, row: int, outputs: Sequence[Batch]) -> Array:
        """The k outputs side by side, `[max b, k, *output]`, zeros where there is no query.

        Raises InvalidInput naming `row`, `outputs` or `outputs[i]`.
        """
        check_count("row", row, 0, self.r - 1)
        longest = longest_output(outputs, self.k)
        heads = np.zeros((len(longest), self.k, *longest.shape[1:]), longest.dtype)
        for slot, output in enumerate(outputs):
            if output is not None:
                heads[: len(output), slot] = output
        return heads

    def parity_output_shape(self, output_shape: tuple[int, ...]) -> tuple[int, ...]:
        """One deployed output per slot."""
        return (self.k, *output_shape)
