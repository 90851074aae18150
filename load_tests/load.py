"""`python -m load_tests.load`: open-loop load on any running system that speaks the protocol.

Writes `records_<name>.csv`; `python -m load_tests.report` makes tables of such files.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from load_tests import tables
from load_tests.client import SendFailed
from load_tests.phase import LabelledImages, run_phase
from load_tests.progress import Reporter
from load_tests.records import write_csv
from load_tests.results import latency_row
from load_tests.server_stats import ServedModel
from parm_ray.config.arrivals import ArrivalSettings


def main(argv: Sequence[str] | None = None) -> int:
    """Run the load and return the exit status: 0, or 1 if a query failed, or 2 if it could not run."""
    options = _parser().parse_args(argv)
    stderr = Console(stderr=True)
    rng = np.random.default_rng(options.seed)
    try:
        arrivals = ArrivalSettings(kind=options.arrivals, burst=options.burst)
        planned = arrivals.planned(options.rate, rng, options.queries)
        images = LabelledImages.load(options.images).shuffled(options.queries, rng)
        model = ServedModel.find(options.url.rstrip("/"), options.model)
        with Reporter(stderr).load(options.name, options.queries) as on_done:
            phase = asyncio.run(run_phase(model, planned, images, timeout_s=options.timeout, on_done=on_done))
    except (OSError, KeyError, ValueError, SendFailed) as error:
        stderr.print(f"[red]{type(error).__name__}:[/] {error}", highlight=False, soft_wrap=True)
        return 2
    path = write_csv(options.out / f"records_{options.name}.csv", phase.records)
    row = {"title": options.name, **latency_row(phase.records)}
    used, cpu = tables.percent(phase.utilisation()), tables.percent(phase.cpu_busy, 0)
    caption = f"deployed pool {used} busy, this machine's cores {cpu} busy; {path}"
    Console().print(tables.terminal("Latency", tables.RUNS, [row], caption))
    if row["generator_lagged"]:
        late = row["send_lateness_p99_ms"]
        stderr.print(f"[bold red]the generator was {late:.0f} ms late (p99): it measured itself[/]")
    return int(row["errors"] > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m load_tests.load", description=__doc__.split("\n")[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="where it runs (default: %(default)s)")
    parser.add_argument("--model", required=True, help="the served model's name")
    parser.add_argument("--images", type=Path, required=True, help="npz file with `images` and `labels`")
    parser.add_argument("--rate", type=float, default=48.0, help="queries per second (default: %(default)s)")
    parser.add_argument("--queries", type=int, default=1000, help="how many (default: %(default)s)")
    parser.add_argument("--arrivals", choices=("poisson", "constant", "bursts"), default="poisson")
    parser.add_argument("--burst", type=int, default=10, help="queries per burst (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=15.0, help="seconds until a query is given up")
    parser.add_argument("--seed", type=int, default=0, help="of arrivals and image order")
    parser.add_argument("--name", default="run", help="of the records file")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where it goes (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
