"""How every command prints, and fails."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

AsJson = Annotated[bool, typer.Option("--json", help="print JSON instead of a table")]


def printed(data: Any, as_json: bool, table: Table) -> None:
    """Print the data as JSON, or the table."""
    if as_json:
        print(json.dumps(data, indent=2))
    else:
        console = Console()
        # In a log there is no terminal to fit: room for every column.
        (console if console.is_terminal else Console(width=160)).print(table)


def fail(error: Exception) -> None:
    """Say what is wrong and end with status 2."""
    print(f"error: {error}", file=sys.stderr)
    raise typer.Exit(2)
