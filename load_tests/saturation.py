"""`python -m load_tests.saturation`: the highest Poisson rate at which p99 stays within a limit.

Every rate is tried in a phase of its own, after the queue of the one before has drained. p99 is
nearest rank over all planned queries, from the planned times, and a failed query is infinitely late.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from load_tests import tables
from load_tests.client import GeneratorLagged, SendFailed, check_generator
from load_tests.phase import LabelledImages, run_phase
from load_tests.records import ClientRecord, failures, latencies
from load_tests.saturation_search import Probe, Saturation, search
from load_tests.server_stats import ServedModel
from load_tests.tail_watch import TailWatch
from parm_ray.core import monotonic
from parm_ray.stats import percentile
from parm_ray.workload import poisson
from parm_ray.workload.ranges import number, whole

# What a server counts as still open, of those keys that its stats page has.
OPEN = ("queries_open", "calls_outstanding", "groups_open")
DRAIN_S = 30.0
Q = 0.99


class NotDrained(RuntimeError):
    """Queries of one probe were still open when the next was to begin."""


async def drain(
    model: ServedModel, timeout_s: float, sleep: Callable[[float], Any] = asyncio.sleep
) -> dict[str, Any]:
    """Wait until the server has nothing open and return its stats page.

    Raises NotDrained after `timeout_s` seconds. A server that does not count is taken to be empty: the
    warm-up queries of the next probe then wait behind whatever is left.
    """
    give_up = monotonic() + timeout_s
    while True:
        stats = await asyncio.to_thread(model.stats)
        left = {key: stats[key] for key in OPEN if stats.get(key)}
        if not left:
            return stats
        if monotonic() > give_up:
            raise NotDrained(f"after {timeout_s:g} s without load there still are {left}")
        await sleep(0.1)


def tail_s(records: Sequence[ClientRecord], unsent: int = 0) -> float:
    """p99 in seconds over all planned queries; the failed and the unsent are infinitely late."""
    return percentile(latencies(records), Q, failures(records) + unsent)


def phase_probe(
    model: ServedModel,
    images: LabelledImages,
    *,
    p99_s: float,
    queries: int,
    timeout_s: float,
    warm_up: int,
    lag_limit_s: float,
    seed: int,
) -> Callable[[float], Probe]:
    """`probe(rate)` on a running system; each probe draws arrivals and images of its own.

    Raises SendFailed, GeneratorLagged or NotDrained when a probe says nothing of the system.
    """
    made = 0

    def probe(rate: float) -> Probe:
        nonlocal made
        rng = np.random.default_rng([seed, made])
        made += 1
        planned = poisson(rate, rng, n=queries).tolist()
        phase = asyncio.run(measured(planned, images.shuffled(max(queries, warm_up), rng)))
        try:
            check_generator(phase.records, lag_limit_s)
        except GeneratorLagged as error:
            raise GeneratorLagged(f"at {rate:.2f} queries/s {error}") from None
        p99 = tail_s(phase.records, phase.unsent)
        return Probe(rate, p99 <= p99_s, p99, queries, len(phase.records), phase.utilisation())

    async def measured(planned: list[float], drawn: LabelledImages) -> Any:
        await drain(model, max(timeout_s, DRAIN_S))
        return await run_phase(
            model,
            planned,
            drawn,
            timeout_s=timeout_s,
            warm_up=warm_up,
            watch=TailWatch(planned, p99_s, Q),
        )

    return probe


def main(argv: Sequence[str] | None = None) -> int:
    """Search and return the exit status: 0, 1 if not even the lowest rate held, 2 if it could not measure."""
    options = _parser().parse_args(argv)
    stderr = Console(stderr=True)
    try:
        limit_s = number("--p99-ms", options.p99_ms, above=0, unit="milliseconds") / 1e3
        lag_limit_s = number("--lag-limit-ms", options.lag_limit_ms, at_least=0, unit="milliseconds") / 1e3
        images = LabelledImages.load(options.images)
        model = ServedModel.find(options.url.rstrip("/"), options.model)
        probe = phase_probe(
            model,
            images,
            p99_s=limit_s,
            queries=whole("--queries", options.queries, at_least=1),
            timeout_s=options.timeout,
            warm_up=options.warm_up,
            lag_limit_s=lag_limit_s,
            seed=options.seed,
        )

        def announced(rate: float) -> Probe:
            done = probe(rate)
            stderr.print(_line(done, limit_s), highlight=False, soft_wrap=True)
            return done

        found = search(
            announced,
            low=options.low,
            high=options.high,
            resolution=options.resolution,
            votes=options.votes,
        )
    except (OSError, KeyError, ValueError, SendFailed, GeneratorLagged, NotDrained) as error:
        stderr.print(f"[red]{type(error).__name__}:[/] {error}", highlight=False, soft_wrap=True)
        return 2
    if options.json:
        print(json.dumps(_document(found, options), indent=2, allow_nan=False))
    else:
        _print(found, limit_s)
    return int(found.held is None)


def answer(found: Saturation, limit_s: float) -> str:
    """The result in one sentence."""
    limit = f"p99 within {limit_s * 1e3:g} ms"
    if found.held is None:
        return f"{limit}: not even at {found.failed:.2f} queries/s, the lowest rate tried"
    if found.failed is None:
        return f"{limit}: still at {found.held:.2f} queries/s, the highest rate tried; raise --high"
    return f"{limit}: held at {found.held:.2f} queries/s, not at {found.failed:.2f}"


def _print(found: Saturation, limit_s: float) -> None:
    table = Table("queries/s", "p99", "", "sent", "utilisation", title="Probes, in order")
    for probe in found.probes:
        table.add_row(*_cells(probe, limit_s))
    console = Console()
    console.print(table)
    console.print(answer(found, limit_s), highlight=False, soft_wrap=True)


def _line(probe: Probe, limit_s: float) -> str:
    rate, p99, held, sent, busy = _cells(probe, limit_s)
    return f"{rate:>8} queries/s: p99 {p99}, {held}; {sent} sent, deployed pool {busy} busy"


def _cells(probe: Probe, limit_s: float) -> tuple[str, str, str, str, str]:
    # A probe that was cut short has no p99, but a bound for it.
    known = probe.held or (math.isfinite(probe.p99_s) and probe.sent == probe.planned)
    return (
        f"{probe.rate:.2f}",
        f"{tables.ms(probe.p99_s * 1e3)} ms" if known else f"> {limit_s * 1e3:g} ms",
        "held" if probe.held else "did not hold",
        f"{probe.sent} of {probe.planned}",
        tables.percent(probe.utilisation),
    )


def _document(found: Saturation, options: argparse.Namespace) -> dict[str, Any]:
    def finite(value: Any) -> Any:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    settings = {key: str(value) if isinstance(value, Path) else value for key, value in vars(options).items()}
    return {
        "p99_limit_ms": options.p99_ms,
        "held_per_s": found.held,
        "failed_per_s": found.failed,
        "probes": [{key: finite(value) for key, value in asdict(p).items()} for p in found.probes],
        "settings": settings,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m load_tests.saturation", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="where it runs (default: %(default)s)")
    parser.add_argument("--model", required=True, help="the served model's name")
    parser.add_argument("--images", type=Path, required=True, help="npz file with `images` and `labels`")
    parser.add_argument("--p99-ms", type=float, required=True, help="the limit, milliseconds")
    parser.add_argument(
        "--low", type=float, default=5.0, help="first rate, per second (default: %(default)s)"
    )
    parser.add_argument("--high", type=float, default=200.0, help="highest rate (default: %(default)s)")
    parser.add_argument(
        "--resolution", type=float, default=0.05, help="how close the two rates come (default: %(default)s)"
    )
    parser.add_argument("--queries", type=int, default=500, help="per probe (default: %(default)s)")
    parser.add_argument("--votes", type=int, default=1, help="probes per rate, odd (default: %(default)s)")
    parser.add_argument("--warm-up", type=int, default=40, help="unmeasured queries before each probe")
    parser.add_argument("--timeout", type=float, default=15.0, help="seconds until a query is given up")
    parser.add_argument(
        "--lag-limit-ms",
        type=float,
        default=5.0,
        help="refuse to measure when the generator's own p99 lateness is above this (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of arrivals and image order")
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    return parser


if __name__ == "__main__":
    sys.exit(main())
