"""The command: `python -m train.run --recipe demo|tiny|FILE.yaml`, from the checkout."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from parm_ray.core.errors import ParmError
from train.fit import Report
from train.pipeline import Run
from train.recipe import load_recipe
from train.results import Row, table_of

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
) -> None:
    """Train a deployed model and its parity models, measure them and write them as artefacts."""
    command = shlex.join(["python", "-m", "train.run", *sys.argv[1:]])
    began = time.perf_counter()
    try:
        rows = Run(
            load_recipe(recipe),
            out,
            device=device,
            force=force,
            threads=threads,
            data=data,
            only=None if only is None else [name.strip() for name in only.split(",")],
            command=command,
            progress=_bar,
        ).rows()
    except ParmError as error:
        _NOTES.print(f"[red]error:[/red] {error}", soft_wrap=True)
        raise typer.Exit(2) from None
    _say(rows, time.perf_counter() - began)
    if as_json:
        print(json.dumps([row.as_json() for row in rows], indent=2))
    else:
        Console().print(table_of(rows))


def _say(rows: list[Row], seconds: float) -> None:
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
