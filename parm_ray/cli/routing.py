"""`parm-ray routing`: plans for fleets, before and while they run."""

from __future__ import annotations

import csv
import json
import math
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from parm_ray.cli.output import AsJson, fail, printed
from parm_ray.core import ConfigError, ParmError

if TYPE_CHECKING:
    from parm_ray.routing.fleet import Routing
    from parm_ray.routing.fleet.snapshot import Snapshot

# Engines that have a column in a table.
MOST_COLUMNS = 8

routing = typer.Typer(no_args_is_help=True, help="Which engines of a fleet get whose traffic.")


@routing.command()
def solve(
    file: Annotated[Path, typer.Argument(help="A fleet's YAML file, see serve_configs/routing")],
    simulate: Annotated[int, typer.Option(min=0, help="also simulate each plan with so many requests")] = 0,
    as_json: AsJson = False,
) -> None:
    """Find the split of all traffic with the least expected latency, beside what is usual."""
    from parm_ray.config.fleet_file import load_fleet
    from parm_ray.routing.fleet import baselines, network_only
    from parm_ray.routing.fleet import solve as optimum
    from parm_ray.routing.fleet.report import report

    try:
        fleet = load_fleet(file)
        solution = optimum(fleet)
        others = {**baselines(fleet), "network_only": network_only(fleet)}
    except ParmError as error:
        fail(error)
        return
    found = report(solution, others)
    if simulate:
        try:
            _simulated(found, {"": solution.routing, **others}, simulate)
        except ValueError as error:
            fail(ConfigError(f"{file}: {error}"))
    printed(found, as_json, _plans(found))


def _simulated(found: dict[str, Any], plans: Mapping[str, Routing], requests: int) -> None:
    """Add to each plan what a simulation of it gives, milliseconds."""
    from parm_ray.sim.fleet import simulate_routing

    for name, plan in plans.items():
        mean, error = simulate_routing(plan, requests)
        row = found["others"][name] if name else found
        row["simulated_ms"] = 1e3 * mean if math.isfinite(mean) else None
        row["simulated_error_ms"] = 1e3 * error if math.isfinite(error) else None


@routing.command()
def simulate(
    file: Annotated[Path, typer.Argument(help="A fleet's YAML file with a `simulation`")],
    seed: Annotated[int | None, typer.Option(min=0, help="not the file's")] = None,
    policy: Annotated[
        Literal["planned", "feedback"] | None, typer.Option(help="of the control plane, not the file's")
    ] = None,
    fluid: Annotated[
        bool, typer.Option(help="means, not each request: for hours, or hundreds of engines")
    ] = False,
    page: Annotated[Path | None, typer.Option(help="also write a page with charts over time")] = None,
    as_json: AsJson = False,
) -> None:
    """Play a fleet with its control plane and front ends in virtual time, and what happens to it."""
    from parm_ray.config.fleet_file import load_fleet_run
    from parm_ray.sim.fleet import (
        FleetResult,
        FluidResult,
        fluid_phases,
        fluid_series,
        phases,
        series,
        simulate_fleet,
        simulate_fluid,
    )

    try:
        run = load_fleet_run(file, seed, policy)
    except ParmError as error:
        fail(error)
        return
    result: FleetResult | FluidResult = simulate_fluid(run) if fluid else simulate_fleet(run)
    if page is not None:
        from parm_ray.sim.fleet.page import render

        try:
            page.write_text(render(run, result, file.stem.replace("_", " ")), encoding="utf-8")
        except (OSError, ValueError) as error:
            fail(ConfigError(f"--page: {error}"))
    if isinstance(result, FluidResult):
        rows, intervals, latencies = (
            fluid_phases(run, result),
            fluid_series(run, result),
            ("mean_ms", "worst_ms"),
        )
    else:
        rows, intervals, latencies = phases(run, result), series(run, result), ("p50_ms", "p99_ms")
    # What of hundreds would be no table any more; --json has all.
    names = [engine.name for engine in run.fleet.engines[:MOST_COLUMNS]]
    table = Table(
        "seconds", "what changed", "requests", *(name.replace("_", " ") for name in latencies), "answered/s",
        "shed", "failed", "sent", *(f"to {name}" for name in names),
    )  # fmt: skip
    for row in rows:
        table.add_row(
            f"{row['from_s']:g}-{row['to_s']:g}",
            ", ".join(row["changes"]),
            str(row["requests"]),
            *(_shown(row[name]) for name in (*latencies, "answered_per_s")),
            *(f"{100 * row[name]:.2f} %" for name in ("shed", "failed")),
            _shown(row["sent"]),
            *(f"{100 * row['shares'][name]:.1f} %" for name in names),
        )
    printed({"phases": rows, "intervals": intervals}, as_json, table)


Source = Annotated[str, typer.Argument(help="a snapshot's file, or the URL of a fleet's control plane")]


@routing.command()
def show(source: Source, as_json: AsJson = False) -> None:
    """Print the plan in force: who sends how much where, and what holds it up."""
    snapshot = _snapshot(source)
    table = Table("demand", "per second", "shed", *(f"to {name}" for name in snapshot.engines))
    for demand, rate, shed, row in zip(
        snapshot.demands, snapshot.rates, snapshot.shed, snapshot.weights, strict=True
    ):
        table.add_row(demand, f"{rate:.4g}", f"{shed:.4g}", *(f"{100 * share:.2f} %" for share in row))
    lines = [f"version {snapshot.version}, expected latency {1e3 * snapshot.mean_s:.2f} ms"]
    lines += [f"binding: {constraint}" for constraint in snapshot.binding]
    lines += [f"{name}: {100 * left:.1f} % left, {why}" for name, (left, why) in snapshot.penalties.items()]
    lines += [
        f"{name}: {'never heard, as declared' if age is None else f'{age:.1f} s old'}"
        for name, age in snapshot.ages_s.items()
    ]
    table.caption, table.caption_justify = "\n".join(lines), "left"
    printed(json.loads(snapshot.to_json()), as_json, table)


@routing.command()
def explain(source: Source, demand: Annotated[str, typer.Argument(help="front end/name")]) -> None:
    """Say why a demand goes where it goes."""
    try:
        print("\n".join(_snapshot(source).explain(demand)))
    except KeyError as error:
        fail(ConfigError(str(error.args[0])))


@routing.command("page")
def plan_page(
    sources: Annotated[list[str], typer.Argument(help="snapshots, oldest first: files or URLs")],
    out: Annotated[Path, typer.Option(help="the page")] = Path("plan.html"),
) -> None:
    """Write a page of the last plan: flows, reasons, and what changed since the first."""
    from parm_ray.serve.fleet.page import render

    try:
        out.write_text(render([_snapshot(source) for source in sources]), encoding="utf-8")
    except OSError as error:
        fail(ConfigError(f"--out: {error}"))
    print(out)


@routing.command()
def fit(
    file: Annotated[Path, typer.Argument(help="CSV with a header and columns load, seconds")],
    pieces: Annotated[int, typer.Option(min=1, help="stretches, at most")] = 8,
) -> None:
    """Fit an engine's profile to measured points; prints the `latency` of a fleet's file."""
    from parm_ray.routing.fleet.regression import fit_profile

    try:
        with file.open(newline="", encoding="utf-8") as text:
            points = [(float(row["load"]), float(row["seconds"])) for row in csv.DictReader(text)]
        loads, seconds = ([point[i] for point in points] for i in (0, 1))
        profile = fit_profile(loads, seconds, pieces)
    except KeyError as error:
        fail(ConfigError(f"{file}: expected a column {error.args[0]}"))
    except (OSError, ValueError, TypeError) as error:
        fail(ConfigError(f"{file}: {error}"))
    else:
        numbers = {"loads": profile.loads, "seconds": profile.seconds}
        shown = ", ".join(f"{name}: [{', '.join(f'{v:.6g}' for v in vs)}]" for name, vs in numbers.items())
        print(f"latency: {{kind: profile, {shown}}}")


@routing.command("diff")
def difference(old: Source, new: Source) -> None:
    """Say what changed between two plans."""
    from parm_ray.routing.fleet.snapshot import diff

    print("\n".join(diff(_snapshot(old), _snapshot(new))))


def _snapshot(source: str) -> Snapshot:
    """Read a snapshot from a file or from a control plane."""
    from parm_ray.routing.fleet.snapshot import Snapshot

    try:
        if source.startswith(("http://", "https://")):
            with urllib.request.urlopen(f"{source.rstrip('/')}/snapshot", timeout=10) as answer:
                text = answer.read().decode()
        else:
            text = Path(source).read_text(encoding="utf-8")
        return Snapshot.from_json(text)
    except (OSError, HTTPException, ValueError) as error:  # not UTF-8, and BadSnapshot, are the last
        fail(ConfigError(f"{source}: {error}"))
        raise


def _plans(found: Mapping[str, Any]) -> Table:
    """Return the plans side by side, the optimum first."""
    names = list(found["loads"])
    parts = ["network", "engines", "mean", *(["simulated"] if "simulated_ms" in found else [])]
    shown = Table("plan", *(f"{part} ms" for part in parts), *(f"load {name}" for name in names))
    for name, plan in [("optimum", found), *found["others"].items()]:
        loads = (f"{plan['loads'][engine]:.2f}" for engine in names)
        shown.add_row(name, *(_shown(plan[f"{part}_ms"]) for part in parts), *loads)
    lines = [
        f"proof: gap {found['gap']:.1e}, KKT residual {found['kkt_residual_ms']:.1e} ms "
        f"({'holds' if found['optimal'] else 'DOES NOT HOLD'}), "
        f"{found['rounds']} linear programs",
        *(f"{demand}: {_row(row)}" for demand, row in found["weights"].items()),
        *(f"binding: {constraint}" for constraint in found["binding"]),
    ]
    shown.caption = "\n".join(lines)
    shown.caption_justify = "left"
    return shown


def _row(weights: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.4f}" for name, share in weights.items() if share > 5e-5)


def _shown(value: float | None) -> str:
    return "no bound" if value is None else f"{value:.2f}"
