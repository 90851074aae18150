"""The control plane's loop: hears reports, asks engines, decides every interval, keeps what it published.

Nothing that it hears may end it: what cannot be used is left out, an interval without a decision is said to
have failed, and the next one comes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from parm_ray.config.fleet_file import FleetSettings
from parm_ray.core import monotonic
from parm_ray.routing.fleet.snapshot import Snapshot
from parm_ray.routing.planes import ControlPlane, Report
from parm_ray.serve.fleet.engines import Engines
from parm_ray.serve.fleet.metrics import ControlMetrics

# Intervals that a new control plane waits for reports before its first decision.
PATIENCE = 5

# Of the time between two pulls of a front end, how much longer it may be.
JITTER = 0.2

# That wait for a decision; more come only if decisions take very long, and the oldest say least.
MOST_REPORTS = 1000

log = logging.getLogger("ray.serve")


class ControlLoop:
    """Decides for one fleet. `history`: snapshots, oldest first; `text`: the newest as JSON.

    engines: in the order of the fleet's. metrics: where decisions are counted.
    """

    def __init__(self, settings: FleetSettings, engines: Engines, metrics: ControlMetrics) -> None:
        self._settings, self._engines, self._metrics = settings, engines, metrics
        # Versions go on rising when this process is a new one: front ends ignore what is older.
        self._control = ControlPlane(settings.fleet(), settings.control.rule(), int(time.time() * 1e3))
        self.history: deque[Snapshot] = deque(maxlen=settings.control.history)
        self.text = ""
        self._names = list(settings.engines)
        # None = not found yet: its declared health stands for it.
        self._replicas: dict[str, int | None] = dict.fromkeys(settings.engines)
        self._gone: set[str] = set()
        self._reports: deque[Report] = deque(maxlen=MOST_REPORTS)
        self._began = monotonic()
        self._first_report: float | None = None
        # Of the plans that front ends brought the newest, how old it was, and when; the newest that one has.
        self._offer: tuple[Snapshot, float, float] | None = None
        self._newest_held = 0

    @property
    def failed(self) -> str | None:
        """What the last interval failed with; None = there is a decision of it."""
        return self._control.failed

    def replicas(self, j: int, count: int) -> None:
        """Engine j has so many, by Serve's word."""
        self._replicas[self._names[j]] = count

    def take(self, report: Report, have: int = 0) -> None:
        """Take the report of a front end that has the plan of version `have`, 0 = none.

        Raises ValueError for a report of another fleet, or that cannot be.
        """
        self._control.inputs.check(report)
        self._reports.append(report)
        self._first_report = self._first_report or monotonic()
        self._newest_held = max(self._newest_held, have)

    def wants(self, have: int) -> bool:
        """Whether a front end should bring its plan, of that version: there is none here, or offered."""
        return not self.history and have > (0 if self._offer is None else self._offer[0].version)

    def recall(self, text: str, age_s: float) -> None:
        """Take a front end's plan, installed so many seconds ago, to go on from; the newest one counts.

        Raises ValueError (BadSnapshot among it) for a damaged one, one of another fleet and one that is too
        old to say anything of now.
        """
        snapshot = Snapshot.from_json(text)
        # By the clock of who made it, too, as far as that can be: a plan may have been old when it came.
        age_s = max(age_s, time.time() - snapshot.created)
        self._control.adoptable(snapshot, age_s)
        if self.wants(snapshot.version):
            self._offer = snapshot, age_s, monotonic()

    async def run(self) -> None:
        """Go on for ever."""
        interval = self._settings.control.interval_ms / 1e3
        while True:
            started = monotonic()
            try:
                await self._hear(interval)
                if self._listening(monotonic()):
                    await asyncio.sleep(interval / 10)
                    continue
                self._go_on(monotonic())
                await self._decide()
            except Exception as error:  # Whatever it is, the next interval may go well, and has to come.
                log.exception("no decision in this interval, the last plan stays")
                self._control.failed = str(error) or type(error).__name__
                self._metrics.failed()
            await asyncio.sleep(max(interval / 10, interval - (monotonic() - started)))

    def _listening(self, now: float) -> bool:
        """Whether it is too early to decide.

        A new process knows only what was declared: front ends do better with the last one's plan until all
        replicas of all of them have reported, or it is clear that some will not.
        """
        pull = self._settings.data_plane.pull_ms / 1e3
        if self._first_report is not None and now < self._first_report + (1 + JITTER) * pull:
            return True
        patience = PATIENCE * max(pull, self._settings.control.interval_ms / 1e3)
        silent = len(self._control.inputs.replicas(now)) < len(self._settings.front_ends)
        return silent and now < self._began + patience

    def _go_on(self, now: float) -> None:
        """Before the first decision, go on from the newest plan that was brought; versions always rise."""
        self._control.beyond(self._newest_held)
        if self._offer is None or self.history:
            return
        snapshot, age_s, at = self._offer
        self._offer = None
        with _said("the last plan"):
            self._control.adopt(snapshot, now, age_s + now - at)
            self.history.append(snapshot)
            self.text = snapshot.to_json()
            log.info("goes on from version %d, %g s old", snapshot.version, round(age_s, 1))

    async def _decide(self) -> None:
        # A large fleet takes the solver a while, in which reports must not wait.
        snapshot = await asyncio.to_thread(self._control.decide, monotonic(), time.time())
        if self._control.failed is not None:
            self._metrics.failed()
        elif snapshot is not None:
            text = snapshot.to_json()
            self.history.append(snapshot)
            self.text = text
            self._metrics.report(snapshot)

    async def _hear(self, interval: float) -> None:
        """Move what came into the inputs: they change here alone, never while a decision reads them."""
        inputs, now = self._control.inputs, monotonic()
        measured = self._settings.control.network == "measured"
        while self._reports:
            report = self._reports.popleft()
            with _said("a report"):
                inputs.report(report, now)
            for engine, seconds in report.network_s.items() if measured else ():
                with _said("a round trip"):
                    inputs.network(report.front_end, engine, seconds, now)
        said = await asyncio.gather(
            *(self._engines.signals(j, interval / 2) for j in range(len(self._names)))
        )
        for (name, replicas), signals in zip(self._replicas.items(), said, strict=True):
            if replicas == 0:
                self._gone.add(name)
                inputs.ready(name, 0.0, now)
                continue
            if name in self._gone:
                # It is back: "none is ready" was true of those that it had.
                self._gone.remove(name)
                inputs.unknown(name)
            if signals is not None:
                with _said(f"signals of {name}"):
                    inputs.ready(name, signals.ready_share, now)
                    self._metrics.signals(name, signals)


@contextmanager
def _said(what: str) -> Iterator[None]:
    """Whatever one of them says, the others are heard."""
    try:
        yield
    except Exception as error:
        log.warning("%s is left out: %s: %s", what, type(error).__name__, str(error)[:200])
