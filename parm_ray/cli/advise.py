"""`parm-ray advise`: which redundancy pays for a measured workload."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from parm_ray.cli.output import AsJson, fail, printed
from parm_ray.core import ConfigError, ParmError

if TYPE_CHECKING:
    from parm_ray.advisor import Advice, Workload
    from parm_ray.cli.service_times import Found
    from parm_ray.config import Settings

# Plans that a table shows beside those that could be advised: the others are in the JSON.
MOST_ROWS = 12

# Pairs and single times of which the means are further apart than this are not of the same calls.
APART = 3.0


def advise(
    times: Annotated[
        Path | None, typer.Argument(help="CSV or Parquet: a column of service times, or load-test records")
    ] = None,
    law: Annotated[
        str | None, typer.Option(help="instead: bimodal(fast=0.05, slow=0.5, slow_share=0.02), ...")
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="instead: a running model's http://.../v2/models/NAME/observations")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="queries per second")] = None,
    replicas: Annotated[int | None, typer.Option(min=1, help="of all pools together")] = None,
    objective: Annotated[str, typer.Option(help="mean, p99, p99.9, ...")] = "p99",
    column: Annotated[str | None, typer.Option(help="which column has the times")] = None,
    unit: Annotated[Literal["s", "ms", "us"] | None, typer.Option(help="of the times")] = None,
    pairs: Annotated[
        Path | None, typer.Option(help="CSV or Parquet: both times of queries that were served twice")
    ] = None,
    parity: Annotated[
        list[str] | None,
        typer.Option(help="parity models that there are: K[:SLOWDOWN[:ACCURACY_LOSS]]; default 2, 3 and 4"),
    ] = None,
    no_parity: Annotated[bool, typer.Option("--no-parity", help="there are none")] = False,
    cancel_ms: Annotated[
        float | None, typer.Option(min=0, help="what stopping a running call costs; default: it cannot be")
    ] = None,
    max_extra_work: Annotated[float, typer.Option(min=0, help="as a share of the calls' own")] = 1.0,
    max_accuracy_loss: Annotated[float | None, typer.Option(min=0, max=1, help="of all answers")] = None,
    max_copies: Annotated[int, typer.Option(min=1, max=8, help="of a query, sent at once")] = 3,
    headroom: Annotated[float, typer.Option(min=1, help="times the rate that a plan has to bear")] = 1.3,
    effort: Annotated[Literal["quick", "normal", "thorough"], typer.Option(help="of the search")] = "quick",
    processes: Annotated[int, typer.Option(min=1, help="to use on this machine")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="of the simulations")] = 0,
    config: Annotated[
        Path | None, typer.Option(help="a Serve YAML file that the advised plan is put into, for --out")
    ] = None,
    parity_artifact: Annotated[
        str | None, typer.Option(help="of the parity models, if the file has none for the advised k")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="where the YAML goes")] = None,
    page: Annotated[Path | None, typer.Option(help="also write a page with charts")] = None,
    as_json: AsJson = False,
) -> None:
    """Say which redundancy pays: plans in order, what each does to the latency, what it costs, and why."""
    from parm_ray.sim.processes import workers

    try:
        if config is not None and out is None:
            raise ConfigError("--out: expected where the file made from --config goes, got none")
        # Processes take a second to start; this one needs as long to import what it uses.
        with workers(processes, "parm_ray.advisor") as spread:
            from parm_ray.advisor import EFFORTS, Limits, Objective, report
            from parm_ray.advisor import advise as ask
            from parm_ray.config.advised import served_by

            found = _found(times, law, url, column, unit)
            base = None if config is None else served_by(config)
            found = replace(found, notes=(*found.notes, *_beyond(base)))
            advice = ask(
                _workload(found, rate, replicas, parity, no_parity, cancel_ms, base),
                Objective.parse(objective),
                Limits(
                    extra_work=max_extra_work,
                    accuracy_loss=max_accuracy_loss,
                    copies=max_copies,
                    headroom=headroom,
                ),
                pairs=_pairs(pairs, unit, found),
                effort=EFFORTS[effort],
                seed=seed,
                spread=spread,
            )
        advice = replace(advice, warnings=(*found.notes, *advice.warnings))
        printed(report(advice), as_json, _table(advice))
        if not as_json:
            _said(advice)
        if out is not None:
            _write(out, _yaml(advice, config, parity_artifact))
        if page is not None:
            from parm_ray.advisor.page import render

            _write(page, render(advice))
    except ParmError as error:
        fail(error)
    except (ValueError, OverflowError) as error:
        fail(ConfigError(str(error)))


def _found(
    times: Path | None, law: str | None, url: str | None, column: str | None, unit: str | None
) -> Found:
    from parm_ray.advisor import parse_law
    from parm_ray.cli.service_times import Found, read_application, read_times

    if sum(source is not None for source in (times, law, url)) != 1:
        raise ConfigError("expected one of a file of service times, --law and --url")
    if times is not None:
        return read_times(times, column, unit)
    if url is not None:
        return read_application(url)
    return Found(parse_law(law or ""))


def _pairs(file: Path | None, unit: str | None, found: Found) -> Any:
    from parm_ray.cli.service_times import read_pairs

    if file is None:
        return found.pairs
    pairs = read_pairs(file, unit)
    ratio = float(pairs.mean()) / found.service.mean
    if not 1 / APART < ratio < APART:
        raise ConfigError(
            f"{file}: expected times like those of single calls, which take {found.service.mean:.4g} s in "
            f"the mean, got {pairs.mean():.4g} s: is --unit right?"
        )
    return pairs


def _workload(
    found: Found,
    rate: float | None,
    replicas: int | None,
    parity: list[str] | None,
    no_parity: bool,
    cancel_ms: float | None,
    base: Settings | None,
) -> Workload:
    from parm_ray.advisor import Losers, Workload

    rate, replicas = rate or found.rate, replicas or found.replicas
    if rate is None:
        raise ConfigError("--rate: expected queries per second > 0, got none")
    if replicas is None:
        raise ConfigError("--replicas: expected >= 1, got none")
    return Workload(
        found.service,
        rate,
        replicas,
        losers=Losers(None if cancel_ms is None else cancel_ms / 1e3),
        parities=() if no_parity else tuple(_offers(parity or ["2", "3", "4"], base)),
        discipline="single" if base is None else base.queue.discipline,
    )


def _beyond(base: Settings | None) -> Iterator[str]:
    """What of a file's settings the advice does not know of."""
    if base is not None and base.batch.max_size > 1:
        yield f"batch.max_size is {base.batch.max_size}: batches are taken for queries here"
    if base is not None and base.ingress.replicas > 1:
        yield f"ingress.replicas is {base.ingress.replicas}: one ingress is simulated"


def _offers(parity: list[str], base: Settings | None) -> Iterator[Any]:
    from parm_ray.advisor import ParityOffer

    coded = base is not None and base.plan.kind == "coded"
    encoder, decoder = (base.plan.encoder, base.plan.decoder) if base and coded else ("concat", "slot")
    for words in parity:
        k, *more = words.split(":")
        try:
            slowdown, loss = [*map(float, more), *[math.nan] * (2 - len(more))]
            yield ParityOffer(
                int(k),
                1.0 if math.isnan(slowdown) else slowdown,
                encoder,
                decoder,
                accuracy_loss=None if math.isnan(loss) else loss,
            )
        except ValueError as error:
            raise ConfigError(
                f"--parity: expected K[:SLOWDOWN[:ACCURACY_LOSS]], got {words!r} ({error})"
            ) from None


def _yaml(advice: Advice, config: Path | None, parity_artifact: str | None) -> str:
    from parm_ray.config.advised import advised_config, advised_fragment

    best = advice.best.candidate
    header = f"# {best.name}: {advice.best.reason}\n"
    return header + (advised_config(config, best, parity_artifact) if config else advised_fragment(best))


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror})") from None


def _table(advice: Advice) -> Table:
    objective = str(advice.objective)
    workload = advice.workload
    title = (
        f"{objective} at {workload.rate:.4g} queries/s on {workload.replicas} replicas, "
        f"{workload.utilisation:.0%} busy without redundancy (milliseconds)"
    )
    table = Table(
        "plan", objective, "95 %", "mean", "p50", "p99", "p99.9", "work", "load", "why", title=title
    )
    able = [one for one in advice.ranked if not one.refused]
    for one in (able + [one for one in advice.ranked if one.refused])[: max(len(able), MOST_ROWS)]:
        table.add_row(
            one.name,
            _cell(one.objective_s),
            f"{_cell(one.interval.low)}-{_cell(one.interval.high)}" if one.interval else "-",
            *(_cell(seconds) for seconds in (one.mean_s, one.p50_s, one.p99_s, one.p999_s)),
            f"{one.extra_work:+.0%}",
            f"{one.load:.0%}",
            one.reason,
        )
    return table


def _cell(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.4g}"


def _said(advice: Advice) -> None:
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"Advice: {advice.best.name}: {advice.best.reason}.")
    if (other := advice.runner_up) is not None:
        console.print(f"Runner-up: {other.name}: {other.reason}.")
    regions = [(advice.by_load[0].load, advice.by_load[0].best), *advice.changes_at] if advice.by_load else []
    for load, name in regions:
        console.print(f"At {load:.0%} of the replicas' time: {name}.")
    for one in advice.unsimulated:
        console.print(f"Refused: {one.candidate.name}: {one.refused}.")
    for words in advice.warnings:
        console.print(f"Note: {words}.")
