"""The adviser's deployment: one replica beside the ingresses, so that none is worked out on their loops."""

from __future__ import annotations

import asyncio

from parm_ray.config import AutoSettings, Settings
from parm_ray.core import monotonic
from parm_ray.serve.advising import Advising
from parm_ray.serve.following import Order, Report


class Adviser:
    """Ingresses come to it, not it to them: so there may be any number of them, a new one gets the plan in
    force with its first report, and one that cannot reach it goes on with its last plan. If it dies, Serve
    starts another, and nobody's plan changes.
    """

    async def __init__(self, settings: Settings, auto: AutoSettings) -> None:  # type: ignore[misc]
        self._advising = Advising(settings, auto, monotonic)
        self._task = asyncio.get_running_loop().create_task(self._advising.forever())

    async def exchange(self, report: Report) -> Order:
        """See `Advising.exchange`."""
        return self._advising.exchange(report)

    async def results(self) -> dict[str, int]:
        """Advices so far, by what came of them."""
        return dict(self._advising.results)

    def check_health(self) -> None:
        """Raise when the loop has ended, which Serve answers with another replica."""
        if self._task.done():
            raise RuntimeError("the adviser's loop has ended")
