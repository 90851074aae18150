"""The adviser at work: reports of ingresses in, from time to time an advice, and the plan that all go by."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from parm_ray.advisor.auto import Rules, State, decide
from parm_ray.advisor.contest import Contest, contest
from parm_ray.advisor.objective import Objective
from parm_ray.advisor.observed import Pools, Seen, workload_of
from parm_ray.advisor.workload import Limits, ParityOffer
from parm_ray.config import AutoSettings, Settings
from parm_ray.core import Clock
from parm_ray.serve.following import Order, Report

logger = logging.getLogger("ray.serve")

# An ingress that has not reported for so many intervals is not there any more.
STALE = 2.0


def limits_of(auto: AutoSettings) -> Limits:
    """Return what the settings allow an advice to cost. No redundancy is always allowed."""
    return Limits(
        extra_work=auto.max_extra_work,
        accuracy_loss=auto.max_accuracy_loss,
        copies=auto.max_copies,
        kinds=frozenset({"none", *auto.kinds}),
    )


def pools_of(settings: Settings, auto: AutoSettings) -> Pools:
    """Return what a server has beside its deployed pool."""
    plan, offer = settings.plan, None
    if plan.kind == "coded":
        loss = auto.reconstruction_loss
        offer = ParityOffer(plan.k, encoder=plan.encoder, decoder=plan.decoder, accuracy_loss=loss)
    return Pools(offer, plan.pool == "shared", settings.queue.discipline)


class Advising:
    """Keeps the reports, and changes the plan by the rules.

    compare: how a contest is held, on a thread: it takes seconds of CPU. An adviser that starts anew takes
    over the plan of the first ingress that reports; nothing else has to survive it.
    """

    def __init__(
        self,
        settings: Settings,
        auto: AutoSettings,
        clock: Clock,
        compare: Callable[..., Contest] = contest,
    ) -> None:
        self.results: Counter[str] = Counter()
        self._auto, self._clock, self._compare = auto, clock, compare
        self._pools, self._limits = pools_of(settings, auto), limits_of(auto)
        self._objective = Objective.parse(auto.objective)
        self._rules = Rules(auto.gain, auto.repeats, auto.dwell_s)
        self._reports: dict[str, tuple[float, Report]] = {}
        self._state: State | None = None
        self._order: Order | None = None
        self._advices = 0

    def exchange(self, report: Report) -> Order:
        """Take a report; return the plan to go by. Never waits for an advice."""
        now = self._clock()
        self._reports[report.ingress] = now, report
        if self._state is None or self._order is None:
            self._state, self._order = State(report.plan, now), Order(report.plan)
        return self._order

    async def advise(self) -> None:
        """Hold one contest and act on it. What goes wrong is logged, and the plan stays."""
        pages = self._fresh()
        if self._state is None or self._order is None or not pages:
            return
        state, seed = self._state, self._auto.seed + self._advices
        self._advices += 1
        try:
            seen = workload_of(pages, self._pools)
            found = await asyncio.to_thread(self._hold, seen, state, seed)
        except ValueError as error:
            self._say("too_few", f"no advice: {error}")
            return
        except Exception as error:
            logger.exception("the adviser failed")
            self._say("failed", f"no advice: {type(error).__name__}: {error}")
            return
        self._act(seen, state, found)

    def _hold(self, seen: Seen, state: State, seed: int) -> Contest:
        return self._compare(
            seen, state.plan, self._objective, self._limits, again=state.challenger, seed=seed
        )

    def _act(self, seen: Seen, state: State, found: Contest) -> None:
        self._state, decision = decide(state, found.found, self._rules, self._clock())
        load = seen.workload
        words = (
            f"{found.objective} at {load.rate:.1f} batches/s, {load.utilisation:.0%} of {load.replicas} "
            f"replicas busy without redundancy, {seen.calls} calls seen: {decision.why}"
        )
        self._say(decision.verdict, words)
        if decision.plan is not None:
            before, after = state.plan.name, decision.plan.name
            logger.warning("plan %s -> %s (%s): %s", before, after, decision.reason, words)
            self._order = Order(decision.plan, decision.reason, words, words)

    def _say(self, result: str, words: str) -> None:
        assert self._order is not None
        self.results[result] += 1
        order = self._order
        self._order = Order(order.plan, order.reason, order.why, words)

    def _fresh(self) -> list[dict[str, Any]]:
        oldest = self._clock() - STALE * self._auto.interval_s
        self._reports = {name: known for name, known in self._reports.items() if known[0] >= oldest}
        return [report.page for _, report in self._reports.values()]

    async def forever(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Advise each interval, until cancelled; an advice that took longer than that is followed at once."""
        while True:
            began = self._clock()
            await self.advise()
            await sleep(max(0.1, began + self._auto.interval_s - self._clock()))
