"""What an engine says of itself when the control plane asks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineSignals:
    """ready_share: of its replicas that can work, 0..1. utilization: of those, in use, 0..1. queued: calls
    that wait. ttft_s, tbt_s: of engines that stream tokens, means of the last seconds; None = there was none.
    """

    ready_share: float
    utilization: float = 0.0
    queued: int = 0
    ttft_s: float | None = None
    tbt_s: float | None = None
