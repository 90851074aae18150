"""Where the driver reports what happened. Metrics, logs and tests are observers."""

from __future__ import annotations

from typing import Protocol

from parm_ray.core.record import QueryRecord


class Observer(Protocol):
    """Receives one call per fact; implementations must be quick and must not raise."""

    def resolved(self, record: QueryRecord) -> None:
        """A query was answered, defaulted or failed."""

    def group_sealed(self, filled: int, wait_s: float, closed_early: bool) -> None:
        """A group stopped taking batches, `wait_s` after its first one."""

    def coded(self, stage: str, seconds: float) -> None:
        """`stage` is "encode" or "decode"; `seconds` is what it took."""

    def compared(self, agreed: int, total: int) -> None:
        """A late original arrived: `agreed` of `total` reconstructed answers had the same top class."""


class NullObserver:
    """Ignores everything."""

    def resolved(self, record: QueryRecord) -> None: ...

    def group_sealed(self, filled: int, wait_s: float, closed_early: bool) -> None: ...

    def coded(self, stage: str, seconds: float) -> None: ...

    def compared(self, agreed: int, total: int) -> None: ...
