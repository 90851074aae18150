"""What all decoders ask of the answers that they are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from parm_ray.codes.base import Array, Batch
from parm_ray.core import InvalidInput, NotRecoverable


def check_answers(
    outputs: Sequence[Batch], parities: Sequence[Batch], lengths: Sequence[int], k: int, r: int
) -> None:
    """Counts and batch lengths of what a decoder is given must fit.

    A parity may have more rows than the longest slot; the surplus is ignored.
    Raises InvalidInput naming `outputs`, `parities`, `lengths` or one of their entries.
    """
    for field, value, count in (("outputs", outputs, k), ("lengths", lengths, k), ("parities", parities, r)):
        if len(value) != count:
            raise InvalidInput(field, f"{count} entries", len(value))
    for i, output in enumerate(outputs):
        if output is not None and (output.ndim < 1 or len(output) != lengths[i]):
            raise InvalidInput(f"outputs[{i}]", f"{lengths[i]} rows", f"shape {output.shape}")
    for i, parity in enumerate(parities):
        if parity is not None and (parity.ndim < 1 or len(parity) < max(lengths)):
            raise InvalidInput(f"parities[{i}]", f"at least {max(lengths)} rows", f"shape {parity.shape}")


def check_wanted(wanted: Sequence[int], possible: Sequence[int]) -> None:
    """Raise NotRecoverable for slots that the answers at hand do not determine."""
    beyond = [slot for slot in wanted if slot not in possible]
    if beyond:
        raise NotRecoverable(f"slots {beyond}: recoverable now are {sorted(possible)}")


def stretches(lengths: Sequence[int], missing: Sequence[int]) -> Iterator[tuple[slice, tuple[int, ...]]]:
    """Yield the rows in which the same slots are unknown, and those slots.

    Beyond a short batch's end its answer is no longer unknown, but zero: fewer are left to solve for.
    """
    start = 0
    for end in sorted({lengths[slot] for slot in missing}):
        yield slice(start, end), tuple(slot for slot in missing if lengths[slot] >= end)
        start = end


def longest_output(outputs: Sequence[Batch], k: int) -> Array:
    """Return the longest of k outputs. Raises InvalidInput naming `outputs` or `outputs[i]`."""
    if len(outputs) != k:
        raise InvalidInput("outputs", f"{k} entries", len(outputs))
    known = [output for output in outputs if output is not None]
    if not known:
        raise InvalidInput("outputs", "at least one output", "only None")
    longest = max(known, key=len)
    for i, output in enumerate(outputs):
        if output is not None and output.shape[1:] != longest.shape[1:]:
            expected = f"[b, {', '.join(map(str, longest.shape[1:]))}] like the others"
            raise InvalidInput(f"outputs[{i}]", expected, f"shape {output.shape}")
    return longest
