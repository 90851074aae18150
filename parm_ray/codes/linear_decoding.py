"""Decoding by linear solve: the missing outputs are what the parities say minus what is known.

One missing slot of a sum is the paper's subtraction, F(X_j) = F_P(P) - sum_{i != j} F(X_i); m missing
slots and m parities are an m x m system, C_U F_U = T - C_A F_A, solved by a matrix that is made once
per pattern U of what is missing and what has arrived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from parm_ray.codes.answers import check_answers, check_wanted, longest_output, stretches
from parm_ray.codes.base import Array, Batch
from parm_ray.codes.shape import check_count
from parm_ray.codes.weights import Weights, row_scales
from parm_ray.core import InvalidInput

# Narrower floats are summed in float32, which subtracting in place would not do.
_QUICK_DTYPES = frozenset(map(np.dtype, (np.float32, np.float64)))

_Pattern = tuple[tuple[int, ...], tuple[int, ...]]


class LinearDecoder:
    """Decodes any missing set that is not larger than the set of parities that have arrived.

    weights: `[r, k]`, those of the encoder, as `check_weights` returns them.
    A slot that stayed empty, or a row that a shorter batch does not have, counts as a known zero:
    parity models are trained with target 0 for it.
    """

    name = "subtract"

    def __init__(self, weights: Weights) -> None:
        self.r, self.k = weights.shape
        self._weights = weights
        self._scales = row_scales(weights)
        self._plain = self.r == 1 and bool((weights == 1).all())
        self._solvers: dict[_Pattern, Weights] = {}

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
        """See `Decoder.decode`. Parities must be floats; decoded outputs have their dtype."""
        if self._plain and len(wanted) == 1 and len(parities) == 1:
            quick = self._subtract(outputs, parities[0], lengths, wanted[0])
            if quick is not None:
                return {wanted[0]: quick}
        missing, rows = self._check(outputs, parities, lengths, wanted)
        decoded = self._solve(outputs, parities, lengths, missing, rows) if len(wanted) else {}
        return {slot: decoded[slot] for slot in wanted}

    def _subtract(
        self, outputs: Sequence[Batch], parity: Batch, lengths: Sequence[int], slot: int
    ) -> Array | None:
        """One missing slot, all batches alike: k - 1 subtractions. None = leave it to the general way."""
        k = self.k
        if parity is None or len(outputs) != k or len(lengths) != k or not 0 <= slot < k:
            return None
        shape, dtype = parity.shape, parity.dtype
        if dtype not in _QUICK_DTYPES or not shape or lengths.count(shape[0]) != k:
            return None
        result, lost = None, 0
        for output in outputs:
            if output is None:
                lost += 1
            elif output.shape != shape:
                return None
            elif result is None:
                result = parity - output
            else:
                result -= output
        if lost != 1 or outputs[slot] is not None or result is None or result.dtype != dtype:
            return None
        return result

    def _check(
        self,
        outputs: Sequence[Batch],
        parities: Sequence[Batch],
        lengths: Sequence[int],
        wanted: Sequence[int],
    ) -> _Pattern:
        """Return the missing slots and the parities at hand, or say what is wrong."""
        check_answers(outputs, parities, lengths, self.k, self.r)
        rows = tuple(i for i, parity in enumerate(parities) if parity is not None)
        missing = tuple(i for i in range(self.k) if lengths[i] and outputs[i] is None)
        check_wanted(wanted, missing if len(missing) <= len(rows) else ())
        for row in rows:
            parity = parities[row]
            if parity is not None and parity.dtype.kind != "f":
                raise InvalidInput(f"parities[{row}]", "floating point answers", str(parity.dtype))
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
        answers = [p[: max(lengths)] for p in parities if p is not None]
        dtype = answers[0].dtype
        residuals = np.array(answers, np.result_type(dtype, np.float32))
        for i, output in enumerate(outputs):
            if output is not None:
                for residual, row in zip(residuals, rows, strict=True):
                    residual[: len(output)] -= residuals.dtype.type(self._weights[row, i]) * output
        flat = residuals.reshape(*residuals.shape[:2], -1)
        decoded = {slot: np.empty((lengths[slot], *residuals.shape[2:]), dtype) for slot in missing}
        for stretch, unknown in stretches(lengths, missing):
            solver = self._solver(unknown, rows).astype(flat.dtype)
            solved = np.einsum("ml,lbo->mbo", solver, flat[:, stretch])
            for slot, values in zip(unknown, solved, strict=True):
                target = decoded[slot][stretch]
                target[...] = values.reshape(target.shape)
        return decoded

    def _solver(self, unknown: tuple[int, ...], rows: tuple[int, ...]) -> Weights:
        """Return the `[unknown, rows]` matrix of least squares for a pattern.

        With parities to spare it averages their errors, each taken to be as large as its parity is
        beside a plain sum: a parity of larger weights would otherwise count for more than it knows.
        """
        key = (unknown, rows)
        if key not in self._solvers:
            scales = self._scales[list(rows)]
            part = self._weights[np.ix_(rows, unknown)]
            self._solvers[key] = np.linalg.pinv(part / scales[:, None]) / scales
        return self._solvers[key]

    def target(self, row: int, outputs: Sequence[Batch]) -> Array:
        """What parity model `row` should answer: sum_i c[row, i] F(X_i), `[max b, *output]`, float.

        Raises InvalidInput naming `row`, `outputs` or `outputs[i]`.
        """
        row = check_count("row", row, 0, self.r - 1)
        longest = longest_output(outputs, self.k)
        total = np.zeros(longest.shape, np.result_type(longest.dtype, np.float32))
        for weight, output in zip(self._weights[row], outputs, strict=True):
            if output is not None:
                total[: len(output)] += total.dtype.type(weight) * output
        return total

    def parity_output_shape(self, output_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Like the deployed model's."""
        return output_shape
