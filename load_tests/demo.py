"""`python -m load_tests.demo`: four redundancy plans under one load, then a stall and a kill.

Needs the artefacts of `python -m train.run --recipe demo`. Starts a Ray cluster of its own on free
ports, deploys `serve_configs/demo_*.yaml` one after the other, and leaves in `--out`: one
`records_*.csv` per phase, `results.json`, and `index.html`.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from load_tests import tables
from load_tests.cluster import ClusterError
from load_tests.demo_plans import TITLES, load_plans, missing_artifacts
from load_tests.demo_report import build_report, results_document
from load_tests.demo_run import FaultPlan, Load, run_demo
from load_tests.page import render
from load_tests.phase import LabelledImages
from load_tests.progress import Reporter
from load_tests.results import write_json
from parm_ray.core import ConfigError

ROOT = Path(__file__).resolve().parent.parent


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo and return the exit status.

    0: done. 1: done, but a query of the fault phase failed. 2: it could not run.
    """
    options = _parser().parse_args(argv)
    stderr = Console(stderr=True)
    try:
        plans = load_plans(options.configs, options.plans)
        missing = missing_artifacts(plans, ROOT)
        images_path = options.artifacts / "queries.npz"
        if missing or not images_path.is_file():
            names = ", ".join(_short(path) for path in missing or [images_path])
            stderr.print(f"[red]missing:[/] {names}\nRun `python -m train.run --recipe demo` first.")
            return 2
        load = Load(options.queries, options.rate, options.seed)
        faults = None if options.no_faults else FaultPlan()
        images = LabelledImages.load(images_path)
        outcome = run_demo(plans, images, load, faults, options.out, ROOT, Reporter(stderr))
    except (ClusterError, ConfigError, OSError) as error:
        stderr.print(f"[red]{type(error).__name__}:[/] {error}", markup=True, highlight=False)
        return 2
    except KeyboardInterrupt:
        stderr.print("[red]interrupted[/]; the cluster has been stopped")
        return 130
    document = results_document(plans, outcome, options.artifacts, asdict(load))
    text = write_json(options.out / "results.json", document)
    page = options.out / "index.html"
    page.write_text(render(build_report(plans, outcome, document)))
    if options.json:
        print(text)
    else:
        _print_tables(_wide(Console()), document)
    for warning in document["warnings"]:
        stderr.print(f"[bold red]{warning}[/]", soft_wrap=True)
    stderr.print(
        f"wrote {_short(options.out / 'results.json')} and {_short(page)}", highlight=False, soft_wrap=True
    )
    return int(any(row["errors"] for row in document["faults"]))


def _wide(console: Console) -> Console:
    """In a log there is no terminal to fit: room for every column."""
    return console if console.is_terminal else Console(width=130)


def _print_tables(console: Console, document: dict[str, Any]) -> None:
    console.print(tables.terminal("Latency by plan", tables.PLANS, document["rows"]))
    if document["faults"]:
        console.print(tables.terminal("A replica stalls, a replica dies", tables.FAULTS, document["faults"]))
    if document["accuracy"]:
        console.print(tables.terminal("Accuracy, measured offline", tables.ACCURACY, document["accuracy"]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m load_tests.demo", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "demo", help="where the results go")
    parser.add_argument(
        "--queries", type=_positive, default=1200, help="queries per plan (default: %(default)s)"
    )
    parser.add_argument("--rate", type=float, default=24.0, help="queries per second (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of arrivals and image order")
    parser.add_argument(
        "--plans", nargs="+", choices=TITLES, default=list(TITLES), help="which plans (default: all four)"
    )
    parser.add_argument("--no-faults", action="store_true", help="leave the stall and the kill out")
    parser.add_argument(
        "--artifacts", type=Path, default=ROOT / "artifacts" / "mnist5k", help="trained models"
    )
    parser.add_argument("--configs", type=Path, default=ROOT / "serve_configs", help="where demo_*.yaml are")
    parser.add_argument("--json", action="store_true", help="print results.json on stdout instead of tables")
    return parser


def _positive(word: str) -> int:
    value = int(word)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected >= 1, got {value}")
    return value


def _interrupt(number: int, frame: FrameType | None) -> None:
    # So that SIGTERM, too, leaves through the context managers that end the cluster.
    raise KeyboardInterrupt


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(main())
