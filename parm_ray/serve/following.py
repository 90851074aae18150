"""An ingress that goes by an adviser's plans."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from parm_ray.redundancy import RedundancyPlan

logger = logging.getLogger("ray.serve")

TIMEOUT_S = 10.0
"""So long an adviser may take to answer, which costs it nothing but a look."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one ingress replica has seen (`Observations.page`), and the plan that it goes by."""

    ingress: str
    page: dict[str, Any]
    plan: RedundancyPlan


@dataclass(frozen=True, slots=True)
class Order:
    """The plan to go by. reason, why: of the last change (`advisor.auto.Reason`), None = there was none.

    last: what came of the last advice, in words.
    """

    plan: RedundancyPlan
    reason: str | None = None
    why: str = ""
    last: str = ""


class Following:
    """Reports what was seen and goes by the plan that comes back; without an answer by the last one.

    exchange: the adviser. report: makes a report. use: goes by a plan, the reason told.
    """

    def __init__(
        self,
        exchange: Callable[[Report], Awaitable[Order]],
        report: Callable[[], Report],
        use: Callable[[RedundancyPlan, str], None],
    ) -> None:
        self._exchange, self._report, self._use = exchange, report, use
        self._order: Order | None = None
        self._failing = ""

    def page(self) -> dict[str, Any]:
        """What the adviser said last, JSON-able; `failing`: why it cannot be asked, "" = it can."""
        order = self._order
        return {
            "reason": order.reason if order is not None else None,
            "why": order.why if order is not None else "",
            "last": order.last if order is not None else "",
            "failing": self._failing,
        }

    async def once(self) -> None:
        """Report, and go by the answer. Whatever goes wrong, the plan in force stays."""
        try:
            order = await asyncio.wait_for(self._exchange(self._report()), TIMEOUT_S)
            self._use(order.plan, order.reason or "asked")
        except Exception as error:
            if not self._failing:
                logger.warning("the adviser cannot be asked, the plan stays: %r", error)
            self._failing = repr(error)
            return
        self._order, self._failing = order, ""

    async def forever(self, every_s: float) -> None:
        """Do so every so many seconds, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            await self.once()
