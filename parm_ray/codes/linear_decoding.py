"""Decoding by linear solve: the missing outputs are what the parities say minus what is known.

One missing slot of a sum is the paper's subtraction, F(X_j) = F_P(P) - sum_{i != j} F(X_i); m missing
slots and m parities are an m x m system (section 4.2 of the paper), solved by a matrix that is made
once per pattern of what is missing and what has arrived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from parm_ray.codes.linear import Weights
from parm_ray.codes.shape import Array, Batch
from parm_ray.core import InvalidInput, NotRecoverable


class LinearDecoder:
    """Decodes any missing set that is not larger than the set of parities that have arrived.

    A slot that stayed empty, or a row that a shorter batch does not have, counts as a known zero:
    parity models are trained with target 0 for it.
    """

    name = "subtract"

    def __init__(self, weights: Weights) -> None:
        self.r, self.k = weights.shape
        self._weights = weights.astype(np.float32)
        self._plain = self.r == 1 and bool((weights == 1).all())
        self._solvers: dict[tuple[tuple[int, ...], tuple[int, ...]], NDArray[np.float32]] = {}

    def recoverable(
        self, present: frozenset[int], answered: frozenset[int], parities: frozenset[int]
    ) -> frozenset[int]:
        """All missing slots, once there are as many parities as missing slots."""
        missing = present - answered
        return missing if len(missing) <= len(parities) else frozenset()

    def decode(
        self,
        outputs: Sequence[Batch],
        parities: Sequence[Batch],
        lengths: Sequence[int],
        wanted: Sequence[int],
    ) -> Mapping[int, Array]:
        """See `Decoder.decode`. Floating point outputs in, the parities' dtype out."""
        if self._plain and len(wanted) == 1 and len(outputs) == self.k:
            quick = self._subtract(outputs, parities[0], lengths, wanted[0])
            if quick is not None:
                return {wanted[0]: quick}
        missing, rows = self._check(outputs, parities, lengths, wanted)
        decoded = self._solve(outputs, parities, lengths, missing, rows)
        return {slot: decoded[slot] for slot in wanted}

    @staticmethod
    def _subtract(outputs: Sequence[Batch], parity: Batch, lengths: Sequence[int], slot: int) -> Array | None:
        """One missing slot, every batch of its length: k - 1 subtractions and no bookkeeping."""
        if parity is None or outputs[slot] is not None:
            return None
        result: Array | None = None
        for i, output in enumerate(outputs):
            if i == slot:
                continue
            if output is None or output.shape != parity.shape:
                return None
            result = parity - output if result is None else np.subtract(result, output, out=result)
        return None if result is None or len(result) != lengths[slot] else result

    def _check(
        self,
        outputs: Sequence[Batch],
        parities: Sequence[Batch],
        lengths: Sequence[int],
        wanted: Sequence[int],
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the missing slots and the parities at hand, or say what is wrong."""
        check_answers(outputs, parities, lengths, self.k, self.r)
        rows = tuple(i for i, parity in enumerate(parities) if parity is not None)
        missing = tuple(i for i in range(self.k) if lengths[i] and outputs[i] is None)
        check_wanted(wanted, missing if len(missing) <= len(rows) else ())
        shapes = {a.shape[1:] for a in (*outputs, *parities) if a is not None}
        if len(shapes) > 1:
            raise InvalidInput("outputs", "one output shape for slots and parities", sorted(shapes))
        return missing, rows

    def _solve(
        self,
        outputs: Sequence[Batch],
        parities: Sequence[Batch],
        lengths: Sequence[int],
        missing: tuple[int, ...],
        rows: tuple[int, ...],
    ) -> dict[int, Array]:
        known = [parities[row] for row in rows]
        first = known[0]
        assert first is not None
        residuals = np.stack([p[: max(lengths)] for p in known if p is not None]).astype(first.dtype)
        for i, output in enumerate(outputs):
            if output is not None:
                for at, row in enumerate(rows):
                    residuals[at, : len(output)] -= self._weights[row, i] * output
        flat = residuals.reshape(len(rows), residuals.shape[1], -1)
        decoded = {slot: np.empty((lengths[slot], *first.shape[1:]), first.dtype) for slot in missing}
        # Rows beyond a short batch's end have fewer unknowns: solve each stretch by itself.
        start = 0
        for end in sorted({lengths[slot] for slot in missing}):
            unknown = tuple(slot for slot in missing if lengths[slot] >= end)
            solved = np.einsum("ml,lbo->mbo", self._solver(unknown, rows), flat[:, start:end])
            for slot, values in zip(unknown, solved, strict=True):
                decoded[slot][start:end] = values.reshape(end - start, *first.shape[1:])
            start = end
        return decoded

    def _solver(self, unknown: tuple[int, ...], rows: tuple[int, ...]) -> NDArray[np.float32]:
        """The pseudo-inverse for a pattern; with parities to spare it averages their errors."""
        key = (unknown, rows)
        if key not in self._solvers:
            part = self._weights[np.ix_(rows, unknown)].astype(np.float64)
            self._solvers[key] = np.linalg.pinv(part).astype(np.float32)
        return self._solvers[key]

    def target(self, row: int, outputs: Sequence[Batch]) -> Array:
        """What parity model `row` should answer: sum_i c[row, i] F(X_i), `[max b, *output]`."""
        longest = max((o for o in outputs if o is not None), key=len)
        total = np.zeros(longest.shape, np.result_type(longest.dtype, np.float32))
        for weight, output in zip(self._weights[row], outputs, strict=True):
            if output is not None:
                total[: len(output)] += weight * output
        return total

    def parity_output_shape(self, output_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Like the deployed model's."""
        return output_shape


def check_answers(
    outputs: Sequence[Batch], parities: Sequence[Batch], lengths: Sequence[int], k: int, r: int
) -> None:
    """Counts and batch lengths must fit. Raises InvalidInput naming the argument."""
    for field, value, count in (("outputs", outputs, k), ("lengths", lengths, k), ("parities", parities, r)):
        if len(value) != count:
            raise InvalidInput(field, f"{count} entries", len(value))
    for i, output in enumerate(outputs):
        if output is not None and len(output) != lengths[i]:
            raise InvalidInput(f"outputs[{i}]", f"{lengths[i]} rows", len(output))
    for i, parity in enumerate(parities):
        if parity is not None and len(parity) < max(lengths):
            raise InvalidInput(f"parities[{i}]", f"at least {max(lengths)} rows", len(parity))


def check_wanted(wanted: Sequence[int], possible: Sequence[int]) -> None:
    """Raises NotRecoverable for slots that the answers at hand do not determine."""
    beyond = [slot for slot in wanted if slot not in possible]
    if beyond:
        raise NotRecoverable(f"slots {beyond}: recoverable now are {sorted(possible)}")
