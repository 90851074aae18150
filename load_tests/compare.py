"""`python -m load_tests.compare RUN [RUN...]`: which differences between plans, or runs, are real.

One run: every plan against the baseline plan. Several: every plan of the later ones against the same plan
of the first, at the same rate; with --baseline, every plan of each run against that plan of its own run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from load_tests.experiment.compare import STATISTICS, Comparison, compare_plans, compare_runs
from load_tests.experiment.rows import Measurement, measure
from load_tests.experiment.runs import RunError, read_run
from load_tests.experiment.terminal import print_comparisons, wide
from load_tests.experiment.titles import titles


def main(argv: Sequence[str] | None = None) -> int:
    """Print the comparison and return the exit status: 0, or 2 if there is nothing to compare."""
    options = _parser().parse_args(argv)
    stderr = Console(stderr=True)
    try:
        runs = _measured(options.runs, stderr)
        found = _compared(runs, options.statistic, options.baseline)
        if not found:
            raise RunError("nothing to compare: no plan was run at the same rate, or load, as another")
    except (OSError, ValueError) as error:
        stderr.print(f"[red]{error}[/]", highlight=False, soft_wrap=True)
        return 2
    if options.json:
        print(json.dumps([comparison.as_json() for comparison in found], indent=2))
        return 0
    named = {id(one): names[one.variant] for run in runs.values() for names in (titles(run),) for one in run}
    print_comparisons(wide(Console()), found, named)
    return 0


def _measured(paths: Sequence[Path], stderr: Console) -> dict[str, list[Measurement]]:
    whole = [path.resolve() for path in paths]
    twice = next((path for path, n in Counter(whole).items() if n > 1), None)
    if twice is not None:
        raise RunError(f"{twice}: given twice")
    # As much of the path as tells the runs apart.
    parts = next(n for n in range(1, 100) if len({path.parts[-n:] for path in whole}) == len(whole))
    runs: dict[str, list[Measurement]] = {}
    for path in whole:
        name = "/".join(path.parts[-parts:])
        with stderr.status(f"reading {name}"):
            runs[name] = measure(read_run(path))
    return runs


def _compared(runs: dict[str, list[Measurement]], statistic: str, baseline: str | None) -> list[Comparison]:
    (first, before), *later = runs.items()
    if not later or baseline is not None:
        return [c for name, run in runs.items() for c in compare_plans(name, run, statistic, baseline)]
    return [c for name, run in later for c in compare_runs(name, run, first, before, statistic)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m load_tests.compare", description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run directory")
    parser.add_argument(
        "--statistic",
        choices=tuple(STATISTICS),
        default="p99",
        help="what is compared (default: %(default)s)",
    )
    parser.add_argument(
        "--baseline",
        metavar="PLAN",
        help="the plan to compare with (default: equal_resources, else the first)",
    )
    parser.add_argument("--json", action="store_true", help="print the comparisons as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
