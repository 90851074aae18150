"""What a run of shuffles moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Finished:
    """One exchange that ended: seconds from the run's start; `failed` if a node was lost during it."""

    first: int
    second: int
    began: float
    seconds: float
    failed: bool = False


@dataclass(frozen=True)
class ShuffleReport:
    """What was moved. nodes: their names, in the order of the plan. moved: bytes that arrived, by
    (from, to), those of unfinished exchanges included. cut: exchanges under way at the end.
    lost_nodes: those whose actor died, or did not say at the end what it got."""

    nodes: tuple[str, ...]
    moved: Mapping[tuple[int, int], int]
    finished: Sequence[Finished]
    cut: int
    seconds: float
    lost_nodes: tuple[str, ...] = field(default=())

    @property
    def bytes_moved(self) -> int:
        """All bytes that arrived."""
        return sum(self.moved.values())

    @property
    def exchanges(self) -> int:
        """Exchanges that were completed."""
        return sum(not one.failed for one in self.finished)

    @property
    def failed(self) -> int:
        """Exchanges that a lost node ended."""
        return len(self.finished) - self.exchanges

    def to_json(self) -> dict[str, Any]:
        """The report as JSON-able data; pairs as a list."""
        return {
            "nodes": list(self.nodes),
            "lost_nodes": list(self.lost_nodes),
            "seconds": self.seconds,
            "bytes": self.bytes_moved,
            "exchanges": self.exchanges,
            "failed": self.failed,
            "cut": self.cut,
            "pairs": [
                {"from": self.nodes[a], "to": self.nodes[b], "bytes": n}
                for (a, b), n in sorted(self.moved.items())
            ],
            "finished": [asdict(one) for one in self.finished],
        }

    def __str__(self) -> str:
        rate = self.bytes_moved * 8 / 1e6 / self.seconds if self.seconds > 0 else 0.0
        return (
            f"{self.bytes_moved / 1e6:.1f} MB in {self.seconds:.1f} s ({rate:.0f} Mbit/s),"
            f" {self.exchanges} exchanges between {len(self.nodes)} nodes,"
            f" {self.failed} failed, {self.cut} cut short"
        )
