"""What an ingress has seen lately, for whoever decides on a plan: an adviser, or a person.

Nothing is counted twice, and next to nothing for this alone: the pools keep what their calls took, and once a
second the totals that are there anyway are set aside.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from parm_ray.core import Clock, Outcome
from parm_ray.groups.lanes import DEPLOYED, Lane, lane_name
from parm_ray.serve.driver import Driver
from parm_ray.serve.pool import CALLS_KEPT, Pool, Timed
from parm_ray.serve.shadow import Shadows

WINDOW_S = 60.0
"""How far back observations go, seconds."""

PAIRS_S = 600.0
"""How far back pairs go, which are few."""


class _Totals(NamedTuple):
    """At some time, since the start. busy_s: by pool, slot-seconds."""

    at: float
    queries: int
    refused: int
    batches: int
    copied: int
    outcomes: dict[str, int]
    busy_s: dict[str, float]


class Observations:
    """Reads the driver; changes nothing.

    answered: queries since the start by outcome, kept by somebody else. ingress: which replica this is.
    compared: reconstructions that agreed with their late original, and all that were compared.
    """

    def __init__(
        self,
        driver: Driver,
        answered: Mapping[str, int],
        clock: Clock,
        ingress: str = "",
        compared: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        self._driver, self._answered, self._clock, self._ingress = driver, answered, clock, ingress
        self._compared = compared
        self._past: deque[_Totals] = deque([self._totals()])

    def tick(self) -> None:
        """Set the totals of now aside. Called about once a second."""
        self._past.append(self._totals())
        # The first that is kept is as old as the window, or the oldest there is.
        while len(self._past) > 2 and self._past[1].at <= self._past[-1].at - WINDOW_S:
            self._past.popleft()

    def page(self) -> dict[str, Any]:
        """Return what was seen in the last WINDOW_S seconds, JSON-able; seconds and shares (0..1).

        `calls`, by what they were for ("deployed", first calls, copies and hedges alike; "parity0" ...;
        "backup"; "shadow"): how long each of the last CALLS_KEPT calls was in service, as the ingress sees
        it: from when it was sent to a replica with a free slot until it came back, transport included,
        queueing in the ingress left out. (What another ingress has sent to the same replica it may wait for;
        that is included.) `seconds` are of calls that ended by themselves, oldest first. `cut_off_s` are of
        calls whose replica died, `running_s` of those that run now: of these all that is known is that they
        take longer; who leaves them out takes a slow model for a fast one. `failed`: calls in which it
        raised.

        `rates` are per second, `refused` with a full queue among the queries. `shares` are of the answers, by
        outcome; `hedged` is of the batches: sent to the deployed pool again, at once or later. Both are null
        where there were none. `pools`: as they are now; `utilisation` is the busy share of their slots.

        `pairs`: with settings.shadow, seconds in service of the same batch on two replicas at once, its
        first call and its shadow, where both ended by themselves; shadows are sent while a replica is idle,
        so pairs are of the quieter moments. They are few, so they go back PAIRS_S. `shadow`: what became of
        those that were drawn; `agreement`: how many reconstructions had the top class of their late
        original. Both since the start.
        """
        now, driver = self._totals(), self._driver
        past = self._past[0]
        span, batches = now.at - past.at, now.batches - past.batches
        refused = now.refused - past.refused
        shadows = driver.pools[DEPLOYED].shadows
        answered = {o.value: now.outcomes[o.value] - past.outcomes[o.value] for o in Outcome}
        return {
            "ingress": self._ingress,
            "time_s": now.at,
            "window": {"seconds": WINDOW_S, "calls": CALLS_KEPT, "covered_s": span},
            "plan": {"name": driver.machine.plan.name, **dataclasses.asdict(driver.machine.plan)},
            "rates": {
                "queries": _share(now.queries - past.queries + refused, span),
                "batches": _share(batches, span),
                "refused": _share(refused, span),
            },
            "shares": {name: _share(n, sum(answered.values())) for name, n in answered.items()}
            | {"hedged": _share(now.copied - past.copied, batches)},
            "pools": {
                pool.name: {
                    "replicas": pool.queue.replicas,
                    "slots": pool.queue.slots,
                    "lanes": [lane_name(n) for n, other in driver.pools.items() if other is pool],
                    "utilisation": _share(
                        now.busy_s[pool.name] - past.busy_s[pool.name],
                        span * pool.queue.replicas * pool.queue.slots,
                    ),
                }
                for pool in driver.distinct_pools()
            },
            "calls": {
                lane_name(lane): _calls(pool, lane, now.at - WINDOW_S) for lane, pool in driver.pools.items()
            },
            "shadow": dict(shadows.results) if shadows is not None else None,
            "pairs": _pairs(shadows, now.at - PAIRS_S) if shadows is not None else [],
            "agreement": dict(zip(("agreed", "total"), self._compared(), strict=True)),
        }

    def _totals(self) -> _Totals:
        driver = self._driver
        return _Totals(
            self._clock(),
            driver.submitted,
            driver.refused,
            driver.pools[DEPLOYED].first_pushed,
            driver.copied,
            dict(self._answered),
            {pool.name: pool.busy_s for pool in driver.distinct_pools()},
        )


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _calls(pool: Pool, lane: Lane, since: float) -> dict[str, Any]:
    # In the order in which they ended: the recent ones are at the right end.
    recent: list[Timed] = []
    for timed in reversed(pool.times[lane]):
        if timed.ended_at < since:
            break
        recent.append(timed)
    recent.reverse()
    return {
        "seconds": [round(timed.seconds, 6) for timed in recent if timed.by_itself],
        "cut_off_s": [round(timed.seconds, 6) for timed in recent if not timed.by_itself],
        "running_s": [round(seconds, 6) for seconds in pool.running_s().get(lane, ())],
        "failed": pool.failed[lane],
    }


def _pairs(shadows: Shadows, since: float) -> list[list[float]]:
    return [
        [round(pair.first_s, 6), round(pair.shadow_s, 6)] for pair in shadows.pairs if pair.ended_at >= since
    ]
