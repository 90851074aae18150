"""What the server says of itself: metadata, counters before and after a phase, group timelines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from load_tests import http_json, oip


@dataclass(frozen=True)
class Tensor:
    """A tensor of the model as its metadata gives it; `shape` is per query, without the batch dimension."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype


@dataclass(frozen=True)
class ServedModel:
    """A model of a running system: where it is, what it takes, what it gives."""

    base_url: str
    name: str
    input: Tensor
    output: Tensor

    @classmethod
    def find(cls, base_url: str, name: str) -> ServedModel:
        """Ask the system. Raises OSError for no answer, KeyError for one that is not OIP metadata."""
        metadata = http_json.get(f"{base_url}/v2/models/{name}")
        return cls(base_url, name, _tensor(metadata["inputs"][0]), _tensor(metadata["outputs"][0]))

    def stats(self) -> dict[str, Any]:
        """The server's counters now."""
        page: dict[str, Any] = http_json.get(f"{self.base_url}/v2/models/{self.name}/stats")
        return page

    def groups(self) -> list[dict[str, Any]]:
        """Timelines of recent groups; empty if the server keeps none."""
        timelines: list[dict[str, Any]] = http_json.get(f"{self.base_url}/v2/models/{self.name}/groups")
        return timelines


def utilisation(before: Mapping[str, Any], after: Mapping[str, Any], pool: str = "deployed") -> float:
    """Busy share of a pool's slots between two `stats` pages, 0..1; nan if unknown.

    Busy slot-seconds over (seconds between the pages x replicas x slots per replica), replicas as the
    later page has them. A slot is busy from dispatch until its answer has come back.
    """
    try:
        first, last = before["pools"][pool], after["pools"][pool]
        slots = last["replicas"] * last.get("slots", 1)
        return float((last["busy_s"] - first["busy_s"]) / ((after["time_s"] - before["time_s"]) * slots))
    except (KeyError, ZeroDivisionError):
        return float("nan")


def _tensor(entry: Mapping[str, Any]) -> Tensor:
    return Tensor(entry["name"], tuple(int(d) for d in entry["shape"][1:]), oip.DTYPES[entry["datatype"]])
