"""How calls wait for a replica. The queues themselves are `routing`'s."""

from __future__ import annotations

from typing import Literal, get_args

Discipline = Literal["single", "round_robin", "random", "power_of_two"]
"""single: one queue for all replicas. The others choose a call's replica when it arrives, by turns, by
chance, or the shorter of two drawn."""

DISCIPLINES: tuple[str, ...] = get_args(Discipline)
