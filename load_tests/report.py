"""`python -m load_tests.report FILE ...`: the table of recorded runs, made from their CSV files alone."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from load_tests import tables
from load_tests.records import read_csv
from load_tests.results import latency_row


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table and return the exit status: 0, or 2 for a file that holds no records."""
    parser = argparse.ArgumentParser(prog="python -m load_tests.report", description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="records_*.csv")
    rows = []
    for path in parser.parse_args(argv).files:
        try:
            rows.append({"title": path.stem.removeprefix("records_"), **latency_row(read_csv(path))})
        except (OSError, KeyError, ValueError) as error:
            Console(stderr=True).print(f"[red]{path}:[/] {type(error).__name__}: {error}", highlight=False)
            return 2
    console = Console()
    console = console if console.is_terminal else Console(width=130)
    console.print(tables.terminal("Recorded runs", tables.RUNS, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
