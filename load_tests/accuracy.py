"""Accuracy of reconstructions over HTTP beside the offline A_d of the parity model's manifest.

    python -m load_tests.accuracy --config serve_configs/fashion_concat_slot_k2.yaml [--queries 10000]

Deploys the file on a cluster of its own, with emulated losses (`model.emulate.lose: one_per_group`):
one answer of every group comes too late. Sends test queries until `--queries` of them were reconstructed,
about k times as many. Exit status 1 if the two accuracies are further apart than `--tolerance`, 2 if
nothing could be measured.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import yaml
from rich.console import Console

from load_tests import serve_app
from load_tests.cluster import ClusterError, cluster
from load_tests.lost_answers import Answer, Collected, NotLost, collect
from load_tests.phase import LabelledImages
from load_tests.replay import Replayed, replay
from load_tests.server_stats import ServedModel
from parm_ray.config.loading import load_settings
from parm_ray.config.settings import Settings
from parm_ray.core import ConfigError, Outcome, monotonic
from parm_ray.models.manifest import Manifest, load_manifest

ROOT = Path(__file__).parents[1]

# What is changed in the file's `args`. The long times keep groups whole, and queries alive, on a machine
# that has other work; they change when things happen, not what is answered.
OVERRIDES: dict[str, dict[str, Any]] = {
    "model": {"emulate": {"lose": "one_per_group"}},
    "plan": {"fill_timeout_ms": 2000, "hold_off_ms": 0},
    "ingress": {"replicas": 1},
    # One query a slot, or a group would be more than its k answers.
    "batch": {"max_size": 1},
}
DEADLINE_MS = 60_000


def lossy_config(source: Path, target: Path, *, http_port: int, root: Path) -> Settings:
    """Write `source` with emulated losses to `target`; return its settings.

    Raises ConfigError unless it holds one application, coded, with one parity row.
    """
    document = serve_app.render_config(source, target, http_port=http_port, root=root)
    if len(document["applications"]) != 1:
        raise ConfigError(f"{source}: applications: expected one, got {len(document['applications'])}")
    args = document["applications"][0]["args"]
    kind = args.get("plan", {}).get("kind", "none")
    if kind != "coded":
        raise ConfigError(f"{source}: args.plan.kind: expected coded, got {kind}")
    for key, changes in OVERRIDES.items():
        args[key] = {**args.get(key, {}), **changes}
    args["deadline_ms"] = DEADLINE_MS
    target.write_text(yaml.safe_dump(document, sort_keys=False))
    (settings,) = load_settings(target).values()
    if settings.plan.r != 1:
        raise ConfigError(f"{source}: args.plan.r: expected 1, got {settings.plan.r}")
    return settings


def report(
    found: Collected, labels: np.ndarray, offline: Manifest, replayed: Replayed | None, seconds: float
) -> dict[str, Any]:
    """The figures of a run. Accuracies are shares 0..1, differences and intervals percentage points.

    a_d: mean over slots of the share of right reconstructions in full groups, as train.evaluate has it.
    chance_points: half the 95 % interval of `lost` independent queries; the same groups would have none.
    """
    lost = found.reconstructed()
    slots = [[a for a in lost if a.slot == slot] for slot in range(found.k)]
    if not all(slots):
        raise NotLost(f"lost by slot: {[len(s) for s in slots]}; take more queries")
    by_slot = [_accuracy(s, labels) for s in slots]
    a_d = sum(by_slot) / found.k
    own = [a for a in found.answers if a.outcome is Outcome.ORIGINAL]
    return {
        "a_d": a_d,
        "a_d_offline": offline.metrics["a_d"],
        "difference_points": 100 * (a_d - offline.metrics["a_d"]),
        "chance_points": 196 * math.sqrt(max(a_d * (1 - a_d), 1e-9) / len(lost)),
        "by_slot": by_slot,
        "by_slot_offline": [offline.metrics[f"a_d_slot_{slot}"] for slot in range(found.k)],
        "lost": len(lost),
        "lost_by_slot": [len(s) for s in slots],
        "lost_in_short_groups": sum(a.outcome is Outcome.RECONSTRUCTED for a in found.answers) - len(lost),
        "a_a": _accuracy(own, labels) if own else None,
        "a_a_offline": offline.metrics["a_a"],
        "queries": len(found.answers),
        "failures": dict(found.failures),
        "rounds": found.rounds,
        "seconds": round(seconds, 1),
        "queries_per_s": round(len(found.answers) / seconds, 1),
        "replayed": None if replayed is None else dataclasses.asdict(replayed),
    }


def _accuracy(answers: list[Answer], labels: np.ndarray) -> float:
    return sum(int(a.output.argmax() == labels[a.image]) for a in answers) / len(answers)


@contextmanager
def _served(config: Path, url: str | None, folder: Path) -> Iterator[tuple[str, Settings]]:
    """Where the lossy application answers: at `url`, or on a cluster of this run's own."""
    target = folder / config.name
    if url is not None:
        yield url.rstrip("/"), lossy_config(config, target, http_port=8000, root=ROOT)
        return
    # The file is checked before anything is started.
    lossy_config(config, target, http_port=8000, root=ROOT)
    with cluster(num_cpus=4, cwd=ROOT) as running:
        settings = lossy_config(config, target, http_port=running.http_port, root=ROOT)
        serve_app.deploy(running, target)
        yield running.base_url, settings


def measure(
    config: Path,
    queries: int,
    *,
    rows_per_request: int = 16,
    concurrency: int = 4,
    seed: int = 0,
    images: Path | None = None,
    url: str | None = None,
    replayed: bool = True,
    console: Console | None = None,
) -> dict[str, Any]:
    """Run it; the arguments are the command's options. Raises ConfigError, ClusterError, NotLost, OSError."""
    console = console or Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder, _served(config, url, Path(folder)) as (base_url, settings):
        parity = Path(settings.parity[0].artifact)
        offline, deployed = load_manifest(parity), load_manifest(settings.model.artifact)
        data = LabelledImages.load(images or parity.parent / "queries.npz")
        model = ServedModel.find(base_url, settings.name or deployed.name)
        began = monotonic()
        found = asyncio.run(
            collect(
                model,
                data,
                queries,
                settings.plan.k,
                np.random.default_rng(seed),
                rows_per_request=rows_per_request,
                concurrency=concurrency,
                on_round=lambda number, left: console.print(f"round {number}: {left} still to be lost"),
            )
        )
        seconds = monotonic() - began
    again = replay(found.full_groups(), data, parity) if replayed else None
    return {
        "config": str(config),
        "overrides": {**OVERRIDES, "deadline_ms": DEADLINE_MS},
        **report(found, data.labels, offline, again, seconds),
    }


def main(
    config: Annotated[Path, typer.Option(help="a Serve YAML file with a coded plan, r = 1")],
    queries: Annotated[int, typer.Option(min=1, help="queries whose own answers are to be lost")] = 10_000,
    rows_per_request: Annotated[int, typer.Option(min=1, max=64, help="queries per HTTP request")] = 16,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="requests under way at once")] = 4,
    seed: Annotated[int, typer.Option(help="of the order of queries")] = 0,
    tolerance: Annotated[float, typer.Option(min=0, help="percentage points")] = 0.3,
    images: Annotated[Path | None, typer.Option(help="npz; default: queries.npz beside the models")] = None,
    url: Annotated[str | None, typer.Option(help="a running system, deployed from a file like this")] = None,
    replayed: Annotated[bool, typer.Option("--replay/--no-replay", help="also decode offline")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Measure A_d over HTTP under forced losses, and compare it with the manifest's."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        result = measure(
            config,
            queries,
            rows_per_request=rows_per_request,
            concurrency=concurrency,
            seed=seed,
            images=images,
            url=url,
            replayed=replayed,
            console=console,
        )
    except (ConfigError, ClusterError, NotLost, OSError, KeyError) as error:
        console.print(f"[red]{type(error).__name__}:[/] {error}")
        raise typer.Exit(2) from None
    if as_json:
        print(json.dumps({"command": f"python -m load_tests.accuracy {' '.join(sys.argv[1:])}", **result}))
    else:
        for line in lines(result):
            print(line)
    raise typer.Exit(int(abs(result["difference_points"]) > tolerance))


def lines(result: dict[str, Any]) -> Iterator[str]:
    """The report in words."""
    slots = ", ".join(f"{100 * a:.2f}" for a in result["by_slot"])
    slots_offline = ", ".join(f"{100 * a:.2f}" for a in result["by_slot_offline"])
    yield f"A_d over HTTP {100 * result['a_d']:.2f} % (by slot {slots}), {result['lost']} answers lost"
    yield f"A_d offline   {100 * result['a_d_offline']:.2f} % (by slot {slots_offline})"
    yield (
        f"difference    {result['difference_points']:+.2f} points"
        f" (by chance alone, 95 %: at most {result['chance_points']:.2f})"
    )
    if (again := result["replayed"]) is not None:
        yield (
            f"same groups decoded offline: {again['other_class']} of {again['answers']} have another class,"
            f" numbers differ by at most {again['largest_difference']:.2g}"
        )
    own = "none" if result["a_a"] is None else f"{100 * result['a_a']:.2f} %"
    yield f"own answers   {own} right; offline A_a {100 * result['a_a_offline']:.2f} %"
    yield (
        f"{result['queries']} queries in {result['seconds']} s, {result['rounds']} rounds;"
        f" failed requests: {result['failures'] or 'none'}"
    )


if __name__ == "__main__":
    typer.run(main)
