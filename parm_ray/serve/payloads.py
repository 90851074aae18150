"""The arrays of open groups: what the group machine's ids stand for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parm_ray.core import CallId, CallKind, GroupId, Outcome

Array = NDArray[np.generic]


@dataclass(slots=True)
class GroupArrays:
    """Inputs and outputs of one group, by slot and by parity row."""

    inputs: list[Array | None] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    outputs: dict[int, Array] = field(default_factory=dict)
    parity_inputs: list[Array] = field(default_factory=list)
    parity_outputs: dict[int, Array] = field(default_factory=dict)
    reconstructed: dict[int, Array] = field(default_factory=dict)
    backups: dict[int, Array] = field(default_factory=dict)

    def answers(self, outcome: Outcome) -> dict[int, Array]:
        """Where the answers of that kind are, by slot."""
        return {Outcome.RECONSTRUCTED: self.reconstructed, Outcome.BACKUP: self.backups}.get(
            outcome, self.outputs
        )

    def of_kind(self, kind: CallKind) -> dict[int, Array]:
        """Where the outputs of calls of that kind go, by place."""
        return {CallKind.PARITY: self.parity_outputs, CallKind.BACKUP: self.backups}.get(kind, self.outputs)

    def filled(self, k: int) -> list[Array | None]:
        """The inputs of all k slots, None for those that stayed empty."""
        return [*self.inputs, *[None] * (k - len(self.inputs))]

    def drop_inputs(self) -> None:
        """Every query is answered: only outputs may still be compared."""
        self.inputs = [None] * len(self.inputs)
        self.parity_inputs = []


@dataclass(slots=True)
class Payloads:
    """Arrays of every group that is not forgotten."""

    groups: dict[GroupId, GroupArrays] = field(default_factory=dict)

    def batch(self, call: CallId, queries: list[Array] | None) -> Array:
        """Store a new batch (`queries` stacked), or find the stored one for another attempt."""
        arrays = self.groups.setdefault(call.group, GroupArrays())
        if queries is not None:
            # One query needs no copy: a view with a batch dimension is enough.
            arrays.inputs.append(queries[0][None] if len(queries) == 1 else np.stack(queries))
            arrays.lengths.append(len(queries))
        stored = arrays.inputs[call.place]
        assert stored is not None, f"{call}: inputs were dropped"
        return stored

    def answer(self, call: CallId, outputs: Array) -> None:
        """Store the outputs of a call."""
        self.groups[call.group].of_kind(call.kind)[call.place] = outputs

    def agreement(self, group: GroupId, slot: int, outcome: Outcome) -> tuple[int, int]:
        """How many of a slot's answers of that kind have the original's top class, and of how many."""
        arrays = self.groups[group]
        original, used = arrays.outputs[slot], arrays.answers(outcome)[slot]
        flat = (original.reshape(len(original), -1), used.reshape(len(used), -1))
        return int(np.sum(flat[0].argmax(1) == flat[1].argmax(1))), len(original)

    def forget(self, group: GroupId) -> None:
        """Drop everything of a group."""
        self.groups.pop(group, None)
