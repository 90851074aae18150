"""The contract of a code: k batches in, r parity batches out, and lost outputs back.

Shapes. A *slot* holds one batch, an array `[b, *shape]` with b >= 1, or None when the group was
closed early and the slot stayed empty. The i-th rows of the k batches are encoded together into
the i-th row of each parity batch, so a parity batch has as many rows as the longest slot; a slot
that has no i-th row contributes the *fill* (an input that means "nothing", see `Encoder.encode`).
"Missing" is always None, never zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]
Batch = Array | None


class Encoder(Protocol):
    """Turns the inputs of k slots into r parity inputs. Pure: same arguments, same bytes out."""

    name: str
    k: int
    r: int

    def encode(self, slots: Sequence[Batch], fill: ArrayLike | None = None) -> list[Array]:
        """Return r C-contiguous parity batches, each `[max b, *shape]`.

        slots: exactly k entries, at least one not None, equal dtype and per-query shape.
        fill: what an absent row contributes: a scalar or an array that broadcasts to the query's
            shape, normally the data set's mean pixel so that it vanishes when normalised
            (None = zeros).
        Integer inputs give integer parities wide enough never to overflow, unsigned ones unless a
        weight is negative; weights that are not whole give floats.
        Raises InvalidInput naming `slots`, `slots[i]` or `fill` otherwise.
        """

    def normalisation(self, row: int, mean: ArrayLike, std: ArrayLike) -> tuple[Array, Array]:
        """Return float32 (mean, std) that parity `row` must be normalised by, from the data's own.

        A sum of k has k x mean and, so that it enters the net at the published scale, std as is.
        """


class Decoder(Protocol):
    """Turns answered outputs and parity outputs into the outputs that are missing."""

    name: str
    k: int
    r: int

    def recoverable(
        self, present: frozenset[int], answered: frozenset[int], parities: frozenset[int]
    ) -> frozenset[int]:
        """Return the slots of `present - answered` that `decode` could produce now.

        present: slots that hold a batch; answered: slots whose own output has arrived;
        parities: parity rows whose output has arrived. Pure set arithmetic, no arrays.
        """

    def decode(
        self,
        outputs: Sequence[Batch],
        parities: Sequence[Batch],
        lengths: Sequence[int],
        wanted: Sequence[int],
    ) -> Mapping[int, Array]:
        """Return `{slot: [lengths[slot], *output]}` for every wanted slot.

        outputs: k entries `[lengths[i], *output]`, None where not answered.
        parities: r entries, None where not answered; `[max b, *output]`, or for slot decoding
            `[max b, k, *output]`.
        lengths: rows of each slot, 0 for a slot that stayed empty.
        Raises NotRecoverable if a wanted slot is not in `recoverable(...)`, InvalidInput on shapes.
        """

    def target(self, row: int, outputs: Sequence[Batch]) -> Array:
        """Return what parity model `row` should answer, `[max b, ...]`, given the k slots' outputs.

        This is what parity models are trained to produce; decoding a target gives the outputs back,
        or, by interpolation, something near. Raises InvalidInput naming `decoder` for a code that
        trains its encoder and decoder instead and leaves the parity to the deployed model.
        """

    def parity_output_shape(self, output_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the per-query output shape of a parity model for a deployed `output_shape`."""
