"""How a data plane and the control plane talk, in the background: a report there, the last snapshot back."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from parm_ray.routing.fleet.snapshot import Snapshot
from parm_ray.routing.planes import Report
from parm_ray.serve.fleet.engines import answered

# A pull that is slower than that is given up: the control plane may be gone, or busy.
PULL_TIMEOUT_S = 10.0

log = logging.getLogger("ray.serve")


@dataclass(frozen=True)
class Word:
    """What the control plane answers to a report.

    snapshot: the newest, as JSON; None = who asked has it, or there is none. wanted: the control plane is a
    new one, and would know theirs.
    """

    snapshot: str | None
    wanted: bool = False


async def pull(control: Any, report: Report, held: Snapshot | None, age_s: float) -> Snapshot | None:
    """Bring one report, and the snapshot in use if it is wanted; return a newer one, None if there is none.

    control: handle of the control plane. held, age_s: the snapshot in use, and for how long it has been.
    Raises whatever the control plane, or the way, has, and BadSnapshot.
    """
    have = 0 if held is None else held.version
    word: Word = await asyncio.wait_for(answered(control.exchange.remote(report, have)), PULL_TIMEOUT_S)
    if word.snapshot is not None:
        return Snapshot.from_json(word.snapshot)
    if word.wanted and held is not None:
        try:
            await asyncio.wait_for(answered(control.recall.remote(held.to_json(), age_s)), PULL_TIMEOUT_S)
        except Exception as error:  # It may be of another fleet, or too old: then there is another plan soon.
            log.warning("the control plane does not go on from the plan in use: %s", str(error)[-200:])
    return None
