"""One run, event by event: any strategy, hedges too. Slower than `lockstep`, and its second opinion."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from parm_ray.sim.forks.strategy import Forking

# A copy in a queue: job, wave (2 x job, the hedge's 2 x job + 1), place among the servers of its wave.
Copy = tuple[int, int, int]

NOBODY = -1


@dataclass(slots=True)
class Server:
    """One server: who waits, whom it serves, until when. Events of an earlier `version` are void."""

    waiting: deque[Copy] = field(default_factory=deque)
    job: int = NOBODY
    begun: float = 0.0
    until: float = -math.inf
    version: int = 0


class Run:
    """Serves the jobs of one run; `latency` and `cost` per job in seconds, when `serve` has returned.

    arrivals: `[jobs]` seconds, ascending. service: per job, the times of its copies in the order in which
    they start; where all are kept, in the order of their servers, a hedge's copies after the first ones.
    servers: per job, those it may be forked to: the first `fork`, for a hedge the next. None = to all.
    """

    def __init__(
        self,
        strategy: Forking,
        arrivals: Sequence[float],
        service: Sequence[Sequence[float]],
        servers: Sequence[Sequence[int]] | None,
    ) -> None:
        self._strategy, self._arrivals, self._service, self._places = strategy, arrivals, service, servers
        jobs = len(arrivals)
        self.latency = [math.nan] * jobs
        self.cost = [0.0] * jobs
        self.hedged = [False] * jobs
        self._servers = [Server() for _ in range(strategy.servers)]
        self._all = range(strategy.servers)
        self._to_all = strategy.forks_to_all
        # Copies are numbered by their server where all of a wave are kept, else by their start.
        self._by_place = strategy.keep == (strategy.servers if self._to_all else strategy.fork)
        self._may_start = [strategy.keep] * (2 * jobs)
        self._started = [0] * jobs
        self._needed = [strategy.need] * jobs
        self._serving: list[list[int]] = [[] for _ in range(jobs)]
        # (time, job, -1) is a hedge's, (time, server, version) the end of a service.
        self._agenda: list[tuple[float, int, int]] = []

    def serve(self) -> None:
        """Serve all jobs to the end."""
        agenda, hedge = self._agenda, self._strategy.hedge_s
        at_arrival = hedge is not None and self._strategy.hedge_from == "arrival"
        for job, now in enumerate(self._arrivals):
            while agenda and agenda[0][0] <= now:
                self._happen(*heapq.heappop(agenda))
            self._fork(job, 2 * job, now)
            if at_arrival and hedge is not None:
                heapq.heappush(agenda, (now + hedge, job, -1))
        while agenda:
            self._happen(*heapq.heappop(agenda))

    def _happen(self, now: float, which: int, version: int) -> None:
        if version < 0:
            if self._needed[which] > 0:
                self.hedged[which] = True
                self._fork(which, 2 * which + 1, now)
            return
        server = self._servers[which]
        if server.version == version:
            if server.job != NOBODY:
                self._ended(which, server, now)
            else:
                self._next(which, server, now)

    def _fork(self, job: int, wave: int, now: float) -> None:
        again = wave & 1
        if self._places is None:
            serving = self._serving[job]
            places: Sequence[int] = [s for s in self._all if s not in serving] if again else self._all
        else:
            fork = self._strategy.fork
            places = self._places[job][fork * again : fork * (1 + again)]
        may_start = self._may_start
        busy = []
        for place, which in enumerate(places):
            server = self._servers[which]
            if server.job == NOBODY and server.until <= now:
                self._start((job, wave, place), which, server, now)
                if not may_start[wave]:
                    # No copy of this wave is going to be started elsewhere: none has to wait.
                    return
            else:
                busy.append((server, place))
        for server, place in busy:
            server.waiting.append((job, wave, place))

    def _start(self, copy: Copy, which: int, server: Server, now: float) -> None:
        job, wave, place = copy
        strategy, started = self._strategy, self._started[job]
        self._started[job] = started + 1
        self._may_start[wave] -= 1
        number = place + strategy.keep * (wave & 1) if self._by_place else started
        server.job, server.begun = job, now
        server.until = now + self._service[job][number]
        self._serving[job].append(which)
        heapq.heappush(self._agenda, (server.until, which, server.version))
        if started == 0 and strategy.hedge_s is not None and strategy.hedge_from == "start":
            heapq.heappush(self._agenda, (now + strategy.hedge_s, job, -1))

    def _ended(self, which: int, server: Server, now: float) -> None:
        job = server.job
        server.job = NOBODY
        self.cost[job] += now - server.begun
        serving = self._serving[job]
        serving.remove(which)
        self._needed[job] -= 1
        free = [which]
        if self._needed[job] == 0:
            self.latency[job] = now - self._arrivals[job]
            if self._strategy.cancel == "all":
                free += [other for other in serving[:] if self._cancel(other, now)]
                free.sort()
        for each in free:
            self._next(each, self._servers[each], now)

    def _cancel(self, which: int, now: float) -> bool:
        """Cancel what a server does; whether it is free at once."""
        server, hold = self._servers[which], self._strategy.cancel_s
        if server.until <= now:
            # It ends in this very moment by itself.
            return False
        job = server.job
        self.cost[job] += now + hold - server.begun
        self._serving[job].remove(which)
        server.job, server.until = NOBODY, now + hold
        server.version += 1
        if hold:
            heapq.heappush(self._agenda, (now + hold, which, server.version))
        return not hold

    def _next(self, which: int, server: Server, now: float) -> None:
        unwanted = self._strategy.cancel != "none"
        waiting, may_start = server.waiting, self._may_start
        while waiting:
            copy = waiting.popleft()
            if may_start[copy[1]] and not (unwanted and self._needed[copy[0]] <= 0):
                self._start(copy, which, server, now)
                return
