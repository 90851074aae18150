"""The command: `python -m train.results`, what was measured, from the committed files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from parm_ray.core.errors import ParmError
from train.results.store import COMMITTED, load_all
from train.results.tables import SUMMARY, named, rewritten, rich_tables

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "train" / "README.md", ROOT / "train" / "results" / "README.md", ROOT / "README.md")


def main(
    as_json: Annotated[bool, typer.Option("--json", help="Print all rows as one JSON array.")] = False,
    markdown: Annotated[bool, typer.Option(help="Print the tables of the pages.")] = False,
    write: Annotated[bool, typer.Option(help="Rewrite the tables between the pages' markers.")] = False,
    folder: Annotated[Path, typer.Option(help="Where the files are.")] = COMMITTED,
) -> None:
    """Print the results of every recipe that was measured."""
    try:
        results = load_all(folder)
        rows = [row for file in results.values() for row in file.rows]
        if as_json:
            print(json.dumps([row.model_dump(mode="json") for row in rows], indent=2))
        elif markdown:
            for name in (*results, SUMMARY):
                print(f"{name}\n\n{named(name, results)}")
        elif write:
            for page in PAGES:
                text = page.read_text(encoding="utf-8")
                fresh = rewritten(text, results)
                if fresh != text:
                    page.write_text(fresh, encoding="utf-8")
        else:
            for table in rich_tables(rows):
                Console().print(table)
    except ParmError as error:
        Console(stderr=True).print(f"[red]error:[/red] {error}", soft_wrap=True)
        raise typer.Exit(2) from None


if __name__ == "__main__":
    typer.run(main)
