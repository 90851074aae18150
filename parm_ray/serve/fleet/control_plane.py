"""The control plane's deployment: hears reports, asks engines, decides every interval, publishes.

Nobody waits for it. Front ends bring their reports and take the newest snapshot in one call, in the
background; while it is gone they go on with what they have.
"""

# No `from __future__ import annotations` here: Serve rebuilds the routes from the class.

import asyncio
import time
from collections import deque
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from ray import serve

from parm_ray.config.fleet_file import FleetSettings
from parm_ray.core import InvalidInput, ParmError, monotonic
from parm_ray.routing.fleet.snapshot import Snapshot, diff
from parm_ray.routing.planes import ControlPlane, Report
from parm_ray.serve.fleet.engines import Engines
from parm_ray.serve.fleet.metrics import ControlMetrics
from parm_ray.serve.fleet.page import render
from parm_ray.serve.http_errors import status_of

# Intervals that a new control plane waits for reports before its first decision.
PATIENCE = 5

api = FastAPI(title="parm_ray control plane")


@api.exception_handler(ParmError)
async def _refuse(_: Any, error: ParmError) -> JSONResponse:
    status, headers = status_of(error)
    return JSONResponse({"error": str(error)}, status, headers)


@serve.ingress(api)
class FleetControl:
    """One control plane of one fleet; it keeps nothing that it could not hear again."""

    async def __init__(self, settings: FleetSettings) -> None:  # type: ignore[misc]
        fleet = settings.fleet()
        self._settings = settings
        # Versions go on rising when this process is a new one: front ends ignore what is older.
        self._control = ControlPlane(fleet, settings.control.rule(), int(time.time() * 1e3))
        self._history: deque[Snapshot] = deque(maxlen=settings.control.history)
        self._text = ""
        self._reports: list[Report] = []
        # None = not found yet: its declared health stands for it.
        self._replicas: dict[str, int | None] = dict.fromkeys(settings.engines)
        self._metrics = ControlMetrics()
        names = list(settings.engines)
        apps = [engine.app or name for name, engine in settings.engines.items()]

        def told(j: int, replicas: int) -> None:
            self._replicas[names[j]] = replicas

        self._engines = Engines(apps, told, timeout_s=1.0)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._engines.connect()), loop.create_task(self._decide_forever())]

    # -- by handle -------------------------------------------------------------------------------

    async def exchange(self, report: Report | None, have: int) -> str | None:
        """Take one interval's report and return the newest snapshot, None if `have` is its version."""
        if report is not None:
            self._reports.append(report)
        last = self._history[-1] if self._history else None
        return None if last is None or last.version == have else self._text

    # -- by HTTP ---------------------------------------------------------------------------------

    @api.get("/snapshot")
    async def http_snapshot(self, version: int | None = None) -> Response:
        """The newest snapshot, or an older one that is still kept."""
        return Response(self._version(version).to_json(), media_type="application/json")

    @api.get("/page")
    async def http_page(self) -> HTMLResponse:
        """The newest snapshot to look at: flows, reasons, what changed."""
        self._version(None)
        return HTMLResponse(render(list(self._history)))

    @api.get("/versions")
    async def http_versions(self) -> dict[str, Any]:
        """The snapshots that are kept, oldest first, and what the last decision failed with, if it did."""
        return {"versions": [one.version for one in self._history], "failed": self._control.failed}

    @api.get("/explain")
    async def http_explain(self, demand: str, version: int | None = None) -> PlainTextResponse:
        """Why a demand goes where it goes."""
        snapshot = self._version(version)
        if demand not in snapshot.demands:
            raise InvalidInput("demand", f"one of {', '.join(snapshot.demands)}", demand)
        return PlainTextResponse("\n".join(snapshot.explain(demand)))

    @api.get("/diff")
    async def http_diff(self, old: int | None = None, new: int | None = None) -> PlainTextResponse:
        """What changed between two snapshots; by default the oldest that is kept and the newest."""
        first = self._version(old if old is not None or not self._history else self._history[0].version)
        return PlainTextResponse("\n".join(diff(first, self._version(new))))

    def _version(self, version: int | None) -> Snapshot:
        if not self._history:
            raise InvalidInput("version", "one that was published", "none yet")
        if version is None:
            return self._history[-1]
        for snapshot in self._history:
            if snapshot.version == version:
                return snapshot
        kept = f"{self._history[0].version}..{self._history[-1].version}"
        raise InvalidInput("version", f"one that is kept, {kept}", version)

    # -- inside ----------------------------------------------------------------------------------

    async def _decide_forever(self) -> None:
        interval = self._settings.control.interval_ms / 1e3
        # A new process knows only what was declared: front ends do better with the last one's plan until all
        # of them have reported, or it is clear that some will not.
        patience = monotonic() + PATIENCE * max(interval, self._settings.data_plane.pull_ms / 1e3)
        while True:
            started = monotonic()
            await self._hear(interval)
            silent = len(self._control.inputs.replicas(started)) < len(self._settings.front_ends)
            if silent and started < patience:
                await asyncio.sleep(interval / 10)
                continue
            # A large fleet takes the solver a while, in which reports must not wait.
            snapshot = await asyncio.to_thread(self._control.decide, monotonic(), time.time())
            if snapshot is not None and self._control.failed is None:
                self._history.append(snapshot)
                self._text = snapshot.to_json()
                self._metrics.report(snapshot)
            await asyncio.sleep(max(0.0, interval - (monotonic() - started)))

    async def _hear(self, interval: float) -> None:
        """Move what came into the inputs: they change here alone, never while a decision reads them."""
        control, now = self._control, monotonic()
        measured = self._settings.control.network == "measured"
        reports, self._reports = self._reports, []
        for report in reports:
            control.inputs.report(report, now)
            for engine, seconds in report.network_s.items() if measured else ():
                control.inputs.network(report.front_end, engine, seconds, now)
        said = await asyncio.gather(
            *(self._engines.signals(j, interval / 2) for j in range(len(self._replicas)))
        )
        for (name, replicas), signals in zip(self._replicas.items(), said, strict=True):
            if replicas == 0:
                control.inputs.ready(name, 0.0, now)
            elif signals is not None:
                control.inputs.ready(name, signals.ready_share, now)
