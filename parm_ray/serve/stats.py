"""The stats page of an ingress: totals, queues, what is outstanding, memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from parm_ray.core import Clock
from parm_ray.groups.lanes import lane_name
from parm_ray.serve.driver import Driver
from parm_ray.serve.metrics import ServeObserver

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Resident memory of this process in bytes (Linux; 0 elsewhere)."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


class IngressStats:
    """Reads the driver and the observer; changes neither."""

    def __init__(self, driver: Driver, observer: ServeObserver, clock: Clock) -> None:
        self._driver = driver
        self._observer = observer
        self._clock = clock
        self._last = {pool.name: (clock(), 0.0) for pool in driver.distinct_pools()}

    def page(self) -> dict[str, Any]:
        """A JSON-able snapshot. Times in seconds; `busy_s` counts slot-seconds used so far."""
        driver, observer = self._driver, self._observer
        return {
            "outcomes": dict(observer.outcomes),
            "errors": dict(observer.errors),
            "groups": dict(observer.groups),
            "agreement": {"agreed": observer.agreed, "total": observer.compared_total},
            "recorded": dict(observer.recorded_rows),
            "groups_open": driver.machine.open_groups,
            "queries_open": driver.machine.open_queries,
            "futures_open": driver.open_queries,
            "timers_open": driver.open_timers,
            "calls_outstanding": sum(pool.outstanding for pool in driver.distinct_pools()),
            "pools": {
                pool.name: {
                    "replicas": pool.queue.replicas,
                    "slots": pool.queue.slots,
                    "queued": pool.queue.queued,
                    "queued_low": pool.queue.queued_low,
                    "busy": pool.queue.busy,
                    "busy_s": pool.busy_s,
                    "busy_s_by_lane": {lane_name(n): s for n, s in pool.busy_by_lane().items()},
                    "calls": pool.calls,
                    "calls_by_lane": {lane_name(n): calls for n, calls in pool.calls_by_lane.items()},
                    "first": {
                        "pushed": pool.first_pushed,
                        "calls": pool.first_calls,
                        "busy_s": pool.first_busy_s,
                    },
                    "by_replica": {
                        name: {"node": pool.nodes[name], "calls": calls, "busy_s": busy}
                        for name, (calls, busy) in pool.by_replica.items()
                    },
                    "service_s": pool.service_s,
                }
                for pool in driver.distinct_pools()
            },
            "time_s": self._clock(),
            "pid": os.getpid(),
            "rss_bytes": resident_bytes(),
        }

    def report(self) -> None:
        """Set the gauges from what happened since the last report."""
        gauges: dict[str, tuple[int, float]] = {}
        for pool in self._driver.distinct_pools():
            now, busy = self._clock(), pool.busy_s
            then, before = self._last[pool.name]
            capacity = (now - then) * pool.queue.replicas * pool.queue.slots
            gauges[pool.name] = (pool.queue.queued, (busy - before) / capacity if capacity > 0 else 0.0)
            self._last[pool.name] = (now, busy)
        self._observer.report(gauges)


async def repeat(every_s: float, *what: Callable[[], None]) -> None:
    """Call each of them, every so many seconds, until cancelled."""
    while True:
        await asyncio.sleep(every_s)
        for one in what:
            one()
