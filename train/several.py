"""The command: `python -m train.several`: recipes times seeds, a process each, so many at a time.

Without options: the four small recipes over three seeds, the table of MLP and LeNet-5 on Fashion-MNIST and
MNIST. One thread a process is faster for nets this small than several threads in one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from parm_ray.core.errors import ConfigError, ParmError
from train.recipe import load_recipe
from train.results import COMMITTED

SMALL = ("small_fashion_lenet5", "small_mnist_lenet5", "small_fashion_mlp", "small_mnist_mlp")
_NOTES = Console(stderr=True)
_TAIL = 2000
"""Characters of a failed run's last words that are shown."""


def main(
    recipes: Annotated[str, typer.Option(help="Comma-separated.")] = ",".join(SMALL),
    seeds: Annotated[str, typer.Option(help="Comma-separated: each recipe once with each.")] = "0,1,2",
    out: Annotated[Path, typer.Option(help="Where artefacts go.")] = Path("artifacts"),
    results: Annotated[Path, typer.Option(help="Folder of the results files.")] = COMMITTED,
    processes: Annotated[
        int | None, typer.Option(min=1, help="At a time; as many as there are cores if not given.")
    ] = None,
    force: Annotated[bool, typer.Option(help="Train again what is up to date.")] = False,
) -> None:
    """Train and measure them all; what fails is named at the end, the rest is kept."""
    began = time.perf_counter()
    names = [name.strip() for name in recipes.split(",")]
    try:
        for name in names:
            load_recipe(name)
        if not all(seed.strip().isdecimal() for seed in seeds.split(",")):
            raise ConfigError(f"seeds: expected whole numbers from 0, like 0,1,2, got {seeds!r}")
    except ParmError as error:
        _NOTES.print(f"[red]error:[/red] {error}", soft_wrap=True)
        raise typer.Exit(2) from None
    runs = [(name, seed.strip()) for name, seed in product(names, seeds.split(","))]

    def carry_out(run: tuple[str, str]) -> bool:
        return _run(*run, out=out, results=results, force=force)

    with ThreadPoolExecutor(processes or len(os.sched_getaffinity(0))) as pool:
        done = list(pool.map(carry_out, runs))
    failed = [f"{name} (seed {seed})" for (name, seed), well in zip(runs, done, strict=True) if not well]
    _NOTES.print(f"{sum(done)} of {len(runs)} runs in {(time.perf_counter() - began) / 60:.1f} min")
    if failed:
        _NOTES.print(f"[red]failed:[/red] {', '.join(failed)}", soft_wrap=True)
        raise typer.Exit(1)


def _run(name: str, seed: str, *, out: Path, results: Path, force: bool) -> bool:
    command = [sys.executable, "-m", "train.run", "--recipe", name, "--seeds", seed]
    command += ["--out", str(out), "--results", os.path.relpath(results), "--threads", "1"]
    began = time.perf_counter()
    done = subprocess.run(
        command + ["--force"] * force,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    _NOTES.print(f"{name} seed {seed}: {time.perf_counter() - began:.0f} s, status {done.returncode}")
    if done.returncode:
        _NOTES.print(done.stderr[-_TAIL:], markup=False)
    return done.returncode == 0


if __name__ == "__main__":
    typer.run(main)
