"""The control plane's deployment: what front ends and people ask of it; `control_loop` decides.

Nobody waits for it. Front ends bring their reports and take the newest snapshot in one call, in the
background; while it is gone they go on with what they have.
"""

# No `from __future__ import annotations` here: Serve rebuilds the routes from the class.

import asyncio
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from ray import serve

from parm_ray.config.fleet_file import FleetSettings
from parm_ray.core import InvalidInput, ParmError
from parm_ray.routing.fleet.snapshot import Snapshot, diff
from parm_ray.routing.planes import Report
from parm_ray.serve.fleet.control_loop import ControlLoop
from parm_ray.serve.fleet.engines import Engines
from parm_ray.serve.fleet.metrics import ControlMetrics
from parm_ray.serve.fleet.page import render
from parm_ray.serve.fleet.pull import Word
from parm_ray.serve.http_errors import status_of

api = FastAPI(title="parm_ray control plane")


@api.exception_handler(ParmError)
async def _refuse(_: Any, error: ParmError) -> JSONResponse:
    status, headers = status_of(error)
    return JSONResponse({"error": str(error)}, status, headers)


@serve.ingress(api)
class FleetControl:
    """One control plane of one fleet; what it has learned is in its plans, which front ends bring back."""

    async def __init__(self, settings: FleetSettings) -> None:  # type: ignore[misc]
        apps = [engine.app or name for name, engine in settings.engines.items()]
        engines = Engines(apps, lambda j, count: self._loop.replicas(j, count), timeout_s=1.0)
        self._loop = ControlLoop(settings, engines, ControlMetrics())
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(engines.connect()), loop.create_task(self._loop.run())]

    # -- by handle -------------------------------------------------------------------------------

    async def exchange(self, report: Report, have: int) -> Word:
        """Take one interval's report and return the newest snapshot, none if `have` is its version.

        Raises ValueError for a report of another fleet, or one that cannot be.
        """
        self._loop.take(report, have)
        newest = self._loop.history[-1].version if self._loop.history else have
        return Word(None if newest == have else self._loop.text, self._loop.wants(have))

    async def recall(self, text: str, age_s: float) -> None:
        """Take the snapshot that a front end has used for so many seconds, as a `Word` asked it to.

        Raises ValueError for one that cannot be gone on from.
        """
        self._loop.recall(text, age_s)

    # -- by HTTP ---------------------------------------------------------------------------------

    @api.get("/snapshot")
    async def http_snapshot(self, version: int | None = None) -> Response:
        """The newest snapshot, or an older one that is still kept."""
        return Response(self._version(version).to_json(), media_type="application/json")

    @api.get("/page")
    async def http_page(self) -> HTMLResponse:
        """The newest snapshot to look at: flows, reasons, what changed."""
        self._version(None)
        return HTMLResponse(render(list(self._loop.history)))

    @api.get("/versions")
    async def http_versions(self) -> dict[str, Any]:
        """The snapshots that are kept, oldest first, and what the last decision failed with, if it did."""
        return {"versions": [one.version for one in self._loop.history], "failed": self._loop.failed}

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
        first = self._version(
            old if old is not None or not self._loop.history else self._loop.history[0].version
        )
        return PlainTextResponse("\n".join(diff(first, self._version(new))))

    def _version(self, version: int | None) -> Snapshot:
        if not self._loop.history:
            raise InvalidInput("version", "one that was published", "none yet")
        if version is None:
            return self._loop.history[-1]
        for snapshot in self._loop.history:
            if snapshot.version == version:
                return snapshot
        kept = f"{self._loop.history[0].version}..{self._loop.history[-1].version}"
        raise InvalidInput("version", f"one that is kept, {kept}", version)
