"""The `parm-ray` command: look at codes, check configurations, simulate, plan for fleets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from parm_ray.cli.advise import advise
from parm_ray.cli.output import AsJson, fail, printed
from parm_ray.cli.routing import routing
from parm_ray.codes import list_codes
from parm_ray.config import Settings
from parm_ray.config.fleet_file import FleetSettings, FrontEndArguments
from parm_ray.config.loading import load_applications
from parm_ray.config.token_engine import TokenEngineSettings
from parm_ray.core import ConfigError, ParmError

# What a fleet's applications are, beside those with a plan.
FLEET = {
    FleetSettings: "a fleet's control plane",
    FrontEndArguments: "a front end",
    TokenEngineSettings: "an emulated engine",
}

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
app.add_typer(routing, name="routing")
app.command()(advise)


@app.command()
def codes(as_json: AsJson = False) -> None:
    """List encoders and decoders by name, and which go together."""
    rows = list_codes()
    table = Table("encoder", "decoder", "k", "r", "what it is")
    for row in rows:
        table.add_row(*(str(row[c]) for c in ("encoder", "decoder", "k", "r", "what")))
    printed(rows, as_json, table)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="Serve YAML files")],
    artifacts: Annotated[bool, typer.Option(help="also read the artefacts they name")] = True,
    as_json: AsJson = False,
) -> None:
    """Check Serve YAML files: keys, values, and that the artefacts fit the plan."""
    rows: list[dict[str, Any]] = []
    try:
        for file in files:
            for name, settings in load_applications(file).items():
                if not isinstance(settings, Settings):
                    what = FLEET[type(settings)]
                    rows.append(
                        {"file": str(file), "application": name, "plan": what, "deployed": "", "parity": ""}
                    )
                    continue
                if artifacts:
                    from parm_ray.serve.app import check_artifacts

                    check_artifacts(settings)
                rows.append({"file": str(file), "application": name, **_summary(settings)})
    except ParmError as error:
        fail(error)
    table = Table("file", "application", "plan", "deployed", "parity")
    for row in rows:
        table.add_row(*(str(row[c]) for c in ("file", "application", "plan", "deployed", "parity")))
    printed(rows, as_json, table)


def _summary(settings: Settings) -> dict[str, Any]:
    plan = settings.plan
    coded = f"{plan.encoder}/{plan.decoder} k={plan.k} r={plan.r}"
    return {
        "plan": coded if plan.kind == "coded" else plan.kind,
        "deployed": settings.model.replicas,
        "parity": "shared" if plan.pool == "shared" else sum(pool.replicas for pool in settings.parity),
    }


@app.command()
def simulate(
    file: Annotated[Path, typer.Argument(help="A scenario's YAML file")],
    queries: Annotated[int | None, typer.Option(min=10, help="per repetition, not the scenario's")] = None,
    processes: Annotated[int, typer.Option(min=1, help="to use on this machine")] = 1,
    ray_address: Annotated[
        str | None, typer.Option("--ray", help="spread over this Ray cluster instead: auto, or host:port")
    ] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE over the file's")] = None,
    shrink: Annotated[int, typer.Option(help="all pools so many times smaller, rates too")] = 1,
    scale: Annotated[float, typer.Option(help="all times so many times as long")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Run a scenario in the simulator: what each plan would do to the tail, in virtual time."""
    from parm_ray.config.scenario_files import scenario_file
    from parm_ray.scenarios import study

    try:
        scenario = scenario_file(file, overrides or (), shrink, scale)
        if queries is not None and queries <= scenario.warm_up:
            raise ConfigError(f"queries: expected more than warm_up ({scenario.warm_up}), got {queries}")
        spread = None
        if ray_address is not None:
            from parm_ray.serve.spread import over_cluster

            spread = over_cluster(ray_address)
        rows = list(study(scenario, processes=processes, queries=queries, spread=spread))
    except ConnectionError as error:
        fail(ConfigError(f"--ray: no Ray cluster at {ray_address} ({error})"))
    except ParmError as error:
        fail(error)
    names = ("plan", "pool", "k", "load", "utilization", "p50_ms", "p99_ms", "p999_ms", "reconstructed")
    table = Table(*names, "extra_work", "errors", title=scenario.title or scenario.name)
    for row in rows:
        cells = ("" if row[c] is None else str(row[c]) for c in (*names, "extra_work", "errors"))
        table.add_row(*cells)
    printed(rows, as_json, table)


@app.command()
def paper(
    queries: Annotated[int, typer.Option(min=1000, help="per rate and seed")] = 100_000,
    seeds: Annotated[int, typer.Option(min=1, help="simulations of each")] = 3,
    processes: Annotated[int, typer.Option(min=1, help="to use on this machine")] = 2,
    only: Annotated[Literal["figure", "around", "low", "all"], typer.Option(help="which settings")] = "all",
    as_json: AsJson = False,
) -> None:
    """Predict the ParM paper's latencies, calibrated on its Equal-Resources figures alone."""
    from parm_ray.scenarios import paper as model
    from parm_ray.scenarios.paper_figures import around, figure_10a, low_rates, predictions

    parts = {"figure": figure_10a, "around": around, "low": low_rates}
    cases = [case for name, part in parts.items() if only in (name, "all") for case in part()]
    rows = list(predictions(cases, queries=queries, seeds=seeds, processes=processes))
    fit = model.calibrate(model.GPU)
    if not as_json:
        print(model.__doc__)
        print(f"Fitted to {model.GPU}:\n{fit}\n")
    names = ("setting", "plan", "k", "rate", "utilization", "p50_ms", "p99_ms", "p999_ms", "extra_work")
    table = Table(*names, "published p99.9", "off by")
    for row in rows:
        known = row["published_p999_ms"]
        beside = ("", "") if known is None else (str(known), f"{100 * row['error']:+.1f} %")
        table.add_row(*(str(row[name]) for name in names), *beside)
    printed(rows, as_json, table)


@app.command()
def schema() -> None:
    """Print the JSON schema of the application's `args`."""
    print(json.dumps(Settings.model_json_schema(), indent=2))
