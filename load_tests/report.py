"""`python -m load_tests.report RUN`: what an experiment measured, from its run directory alone.

Findings and a table per rate on the terminal, or rows with --json; --html and --csv write files. Given
files of records instead (`records_*.csv`, `.parquet`), it prints one table of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from load_tests import tables
from load_tests.experiment.page import render
from load_tests.experiment.rows import json_rows, measure
from load_tests.experiment.runs import RunError, read_run
from load_tests.experiment.tables import write_rows
from load_tests.experiment.terminal import print_cautions, print_run, wide
from load_tests.records import read_csv, read_parquet
from load_tests.results import latency_row


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report and return the exit status: 0, or 2 for what holds neither a run nor records."""
    options = _parser().parse_args(argv)
    stderr = Console(stderr=True)
    try:
        if any(path.is_dir() for path in options.paths):
            return _report_run(options, stderr)
        return _report_records(options)
    except (OSError, RunError) as error:
        stderr.print(f"[red]{error}[/]", highlight=False, soft_wrap=True)
        return 2


def _report_run(options: argparse.Namespace, stderr: Console) -> int:
    if len(options.paths) != 1:
        raise RunError(
            f"RUN: expected one run directory, got {len(options.paths)} paths; see load_tests.compare"
        )
    directory = read_run(options.paths[0])
    of = len(directory.run.cells)
    with stderr.status("reading") as status:
        read: list[str] = []

        def on_cell(cell_id: str) -> None:
            read.append(cell_id)
            status.update(f"cell {len(read)} of {of}: {cell_id}")

        measurements = measure(directory, lambda cell: on_cell(cell.id))
        rows = [one.row for one in measurements]
        if options.html:
            status.update("drawing")
            options.html.parent.mkdir(parents=True, exist_ok=True)
            options.html.write_text(render(directory, measurements), encoding="utf-8")
        if options.csv:
            write_rows(options.csv, rows)
    if options.json:
        print(json.dumps(json_rows(rows), indent=2))
    else:
        print_run(wide(Console()), directory.run, measurements)
    print_cautions(stderr, directory.run, measurements)
    return 0


def _report_records(options: argparse.Namespace) -> int:
    for name in ("html", "csv", "json"):
        if getattr(options, name):
            raise RunError(f"--{name}: expected a run directory, got files of records")
    rows = []
    for path in options.paths:
        try:
            records = read_parquet(path) if path.suffix == ".parquet" else read_csv(path)
            rows.append({"title": path.stem.removeprefix("records_"), **latency_row(records)})
        except (KeyError, ValueError) as error:
            raise RunError(f"{path}: {type(error).__name__}: {error}") from None
    console = Console()
    console = console if console.is_terminal else Console(width=130)
    console.print(tables.terminal("Recorded runs", tables.RUNS, rows))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m load_tests.report", description=__doc__.split("\n")[0])
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="RUN", help="a run directory, or files of records"
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the page")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the rows")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON instead of the tables")
    return parser


if __name__ == "__main__":
    sys.exit(main())
