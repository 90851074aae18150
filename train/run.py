"""The command: `python -m train.run --recipe demo|tiny|FILE.yaml`, from the checkout."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from parm_ray.core.errors import ConfigError, ParmError
from train.distributed import run_on_workers
from train.fit import Report
from train.pipeline import Run
from train.recipe import load_recipe
from train.results import Artefact, Hardware, Row, commit, table_of, update
from train.seeds import seeded

_NOTES = Console(stderr=True)


def main(
    recipe: Annotated[str, typer.Option(help="A built-in recipe (demo, tiny, ...) or a YAML file.")],
    out: Annotated[Path, typer.Option(help="Where artefacts go.")] = Path("artifacts"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as one JSON array.")] = False,
    force: Annotated[bool, typer.Option(help="Train again what is up to date.")] = False,
    only: Annotated[str | None, typer.Option(help="Comma-separated parity artefacts; others stay.")] = None,
    data: Annotated[Path | None, typer.Option(help="Directory the data set lies in.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads instead of the recipe's.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Comma-separated: the recipe once with each.")] = None,
    measure: Annotated[bool, typer.Option(help="Train nothing; measure what is trained.")] = False,
    results: Annotated[Path | None, typer.Option(help="Write DIR/<recipe>.json, rows merged in.")] = None,
    deployed: Annotated[Path | None, typer.Option(help="A ready deployed artefact; none is trained.")] = None,
    logged: Annotated[Path | None, typer.Option(help="Train parities on recorded queries in DIR.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes of Ray Train that train together.")] = 1,
) -> None:
    """Train a deployed model and its parity models, measure them and write them as artefacts."""
    command = shlex.join(["python", "-m", "train.run", *sys.argv[1:]])
    commit()  # of the code that is loaded now, whatever the tree becomes meanwhile
    began = time.perf_counter()
    artefacts, skipped = [], []
    try:
        if measure and force:
            raise ConfigError("force: not together with --measure, which trains nothing")
        if deployed is not None and seeds is not None:
            raise ConfigError("seeds: not together with --deployed, which was trained on one split")
        if logged is not None and results is not None:
            raise ConfigError("results: not together with --logged, whose models are not the recipe's")
        whole = load_recipe(recipe)
        options: dict[str, Any] = {
            "device": device,
            "force": force,
            "threads": threads,
            "data": data,
            "only": None if only is None else [name.strip() for name in only.split(",")],
            "deployed": deployed,
            "logged": logged,
            "command": command,
            "measure_only": measure,
            "results": _writer(results and results.resolve() / f"{whole.name}.json", command),
        }
        for seed in _seeds(seeds):
            chosen = whole if seed is None else seeded(whole, seed)
            if workers > 1:
                lines, left = run_on_workers(chosen, out, workers, **options)
            else:
                run = Run(chosen, out, progress=_bar, **options)
                lines, left = run.rows(), run.skipped
            artefacts += lines
            skipped += left
    except ParmError as error:
        _NOTES.print(f"[red]error:[/red] {error}", soft_wrap=True)
        raise typer.Exit(2) from None
    _say(artefacts, skipped, time.perf_counter() - began)
    if as_json:
        print(json.dumps([artefact.as_json() for artefact in artefacts], indent=2))
    else:
        Console().print(table_of(artefacts))


def _seeds(seeds: str | None) -> list[int] | list[None]:
    """Return the seeds asked for; [None] = the recipe as it is."""
    if seeds is None:
        return [None]
    try:
        numbers = [int(seed) for seed in seeds.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise ConfigError(f"seeds: expected distinct whole numbers from 0, like 0,1,2, got {seeds!r}")
    return numbers


def _writer(path: Path | None, command: str) -> Callable[[list[Row], Hardware], None]:
    """Return what puts rows into the file as they come: a long run leaves what it has."""

    def write(rows: list[Row], hardware: Hardware) -> None:
        if path is not None:
            update(path, rows, command=command, hardware=hardware)

    return write


def _say(rows: list[Artefact], skipped: list[str], seconds: float) -> None:
    if skipped:
        _NOTES.print(f"not trained, so not measured: {', '.join(skipped)}")
    fresh = sum(not row.cached for row in rows)
    if fresh == 0:
        _NOTES.print(f"all {len(rows)} models are up to date, nothing trained (--force trains again)")
    else:
        _NOTES.print(f"trained {fresh} of {len(rows)} models in {seconds:.1f} s")


@contextmanager
def _bar(name: str) -> Iterator[Report]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=_NOTES, refresh_per_second=4) as progress:
        task = progress.add_task(name, loss=float("nan"))
        yield lambda done, total, loss: progress.update(task, completed=done, total=total, loss=loss)


if __name__ == "__main__":
    typer.run(main)
