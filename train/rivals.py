"""The command: `python -m train.rivals --recipe X`: what else could stand in for a late answer.

Rows for the same table as a recipe's codes, of the same deployed model, which must be trained already:
Berrut interpolation and learned codes, for which the deployed model itself answers the parity, a smaller
network, and a fixed answer.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from parm_ray.core.errors import ParmError
from train.measure import hardware_of
from train.recipe import load_recipe
from train.results import COMMITTED, Row, commit, update
from train.rival_rows import Rivals

_NOTES = Console(stderr=True)


def main(
    recipe: Annotated[str, typer.Option(help="The recipe whose deployed model is there already.")],
    out: Annotated[Path, typer.Option(help="Where artefacts are, and go.")] = Path("artifacts"),
    results: Annotated[
        Path, typer.Option(help="Folder of the results file, RECIPE_rivals.json.")
    ] = COMMITTED,
    only: Annotated[str | None, typer.Option(help="Comma-separated rivals; others stay.")] = None,
    data: Annotated[Path | None, typer.Option(help="Directory the data set lies in.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps of each trained rival.")] = None,
    force: Annotated[bool, typer.Option(help="Train again what is up to date.")] = False,
) -> None:
    """Make and measure each rival, and put its row into the results file as soon as it is there."""
    command = shlex.join(["python", "-m", "train.rivals", *sys.argv[1:]])
    commit()  # of the code that is loaded now, whatever the tree becomes meanwhile
    rows: list[Row] = []
    try:
        chosen = load_recipe(recipe)
        rivals = Rivals(chosen, out, device=device, data=data, steps=steps, force=force)
        for name in rivals.chosen(None if only is None else [part.strip() for part in only.split(",")]):
            _NOTES.print(name)
            rows.append(rivals.row(name))
            hardware = hardware_of(rivals.device)
            update(results / f"{chosen.name}_rivals.json", rows[-1:], command=command, hardware=hardware)
    except ParmError as error:
        _NOTES.print(f"[red]error:[/red] {error}", soft_wrap=True)
        raise typer.Exit(2) from None
    Console().print(table_of(rows))


def table_of(rows: list[Row]) -> Table:
    """Return the rows as a table: shares in percent, times over the deployed model's pass."""
    table = Table("encoder", "decoder", "k", "A_a", "A_d", "by slot", "short", "encode", "decode", "min")
    for row in rows:
        table.add_row(
            row.encoder or "",
            row.decoder or "",
            str(row.k or ""),
            _percent(row.a_a),
            _percent(row.a_d),
            " ".join(map(_percent, row.a_d_by_slot or ())),
            _percent(row.a_d_short),
            _times(row.encode_ratio),
            _times(row.decode_ratio),
            "" if row.train_minutes is None else f"{row.train_minutes:.1f}",
        )
    return table


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.3f}"


if __name__ == "__main__":
    typer.run(main)
