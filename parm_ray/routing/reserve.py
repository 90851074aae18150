"""How much of a pool low-priority work must leave idle: a fixed share, or as much as the load needs."""

from __future__ import annotations

WEIGHT = 0.01
"""How much the next arrival counts in the mean load: the last hundred or two make it up."""

UNKNOWN = 0.5
"""The mean load before anything has arrived."""


class Reserve:
    """The share 0..1 of all slots that starting low-priority work must leave idle.

    share: None = as large a share as ordinary calls keep busy in the mean. A started call is not
    interrupted, so whoever arrives while it runs needs an idle slot: one for every slot that the load
    occupies is room for twice the load. At low load that leaves most of the pool to parity queries, at
    high load nothing, where they would only make everybody wait. The mean is over what ordinary calls
    find when they are queued; Poisson arrivals see the time average (Wolff, 1982). Copies and hedges count,
    too: they come while their batch's first call runs, so that a plan that sends many of them leaves more.
    """

    def __init__(self, share: float | None) -> None:
        self.follows = share is None
        self.share = UNKNOWN if share is None else share

    def use(self, share: float | None) -> None:
        """Go by another share from now on; a mean that is followed already is kept."""
        if share is not None:
            self.share = share
        elif not self.follows:
            self.share = UNKNOWN
        self.follows = share is None

    def slots(self, of: int) -> float:
        """How many of so many slots have to stay idle."""
        # A mean is never quite 0 or 1: the nearest whole number of slots.
        return round(self.share * of) if self.follows else self.share * of

    def arrived(self, busy: float) -> None:
        """An ordinary call has come and found that share 0..1 of the slots busy with ordinary calls."""
        self.share += WEIGHT * (busy - self.share)
