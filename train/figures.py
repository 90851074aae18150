"""Small facts about an artefact and its measurement: names, machine, training log, flat figures."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from parm_ray.models.manifest import Manifest, ModelSource
from train.evaluate import LATE_SHARES, Degraded, Scores, overall
from train.fit import LOG
from train.results.rows import thinned
from train.results.store import Hardware, cpu_model


def short_name(source: ModelSource) -> str:
    """Return what tables call a net: its factory, with the depth if it is a family's (resnet18)."""
    if source.factory is None:
        return source.torchvision or ""
    name = source.factory.partition(":")[2]
    inner = source.kwargs.get("factory")
    if name == "probabilities" and isinstance(inner, str):
        kwargs = source.kwargs.get("kwargs")
        return short_name(ModelSource(factory=inner, kwargs=kwargs if isinstance(kwargs, dict) else {}))
    return f"{name}{source.kwargs['depth']}" if name == "resnet" and "depth" in source.kwargs else name


def variant_of(manifest: Manifest) -> str:
    """Return the recipe's variant, which the artefact's settings tell."""
    settings = json.loads(manifest.provenance.get("settings", "{}"))
    return str(settings.get("variant", ""))


def hardware_of(device: torch.device) -> Hardware:
    """Return what this process computes on."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Hardware(
        cpu=cpu_model(), cores=cores, gpu=gpu, torch=torch.__version__, threads=torch.get_num_threads()
    )


def machine(device: torch.device) -> str:
    """Return the name of what trains: the GPU, or the processor and the cores it has here."""
    hardware = hardware_of(device)
    return hardware.gpu or f"{hardware.cpu}, {hardware.cores} cores"


def seconds_of(manifest: Manifest, directory: Path) -> float | None:
    """Return what training took: from the manifest, or if it was never measured from the log."""
    if "seconds" in manifest.metrics:
        return manifest.metrics["seconds"]
    logged = _log(directory)
    return float(logged[-1]["seconds"]) if logged else None


def flat_metrics(a_a: float, found: Sequence[Degraded], row: int, seconds: float | None) -> dict[str, float]:
    """Return what the manifest of parity row `row` keeps: flat names, shares in 0..1, seconds.

    a_d: one slot lost, this row alone has answered. a_d_r_lost: with r > 1, every r slots lost at
    once, reconstructed from all rows; else a_d.
    """
    own = [d for d in found if not d.control]
    alone = next(d for d in own if d.lost == 1 and d.answered == (row,))
    rows = max(len(d.answered) for d in own)
    together = next((d for d in own if d.lost == rows == len(d.answered)), alone)
    short = {} if alone.a_d_short is None else {"a_d_short": alone.a_d_short}
    return {
        "a_a": a_a,
        "a_d": alone.a_d,
        **{f"a_d_slot_{slot}": value for slot, value in enumerate(alone.a_d_by_slot)},
        **short,
        "a_d_r_lost": together.a_d,
        "agreement": alone.agreement,
        **late_answers(a_a, alone.a_d),
        **({} if seconds is None else {"seconds": seconds}),
    }


def late_answers(a_a: float, a_d: float) -> dict[str, Any]:
    """Return A_o by its name in rows and manifests, `a_o_5` for 5 % late."""
    return {f"a_o_{late * 100:.0f}": overall(a_a, a_d, late) for late in LATE_SHARES}


def curve_of(directory: Path) -> tuple[tuple[float, float], ...]:
    """Return (minutes, validation share) from an artefact's training log, at most 40 points."""
    points = [
        (float(at["seconds"]) / 60, float(at["validation"])) for at in _log(directory) if at["validation"]
    ]
    return thinned(points)


def _log(directory: Path) -> list[dict[str, str]]:
    path = directory / LOG
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def confidence_of(scores: Scores) -> dict[str, Any]:
    """Return what a row says of answers beside their score."""
    return {"top5": scores.top5, "ece": scores.ece, "gate": scores.gate}


def minutes_of(seconds: Sequence[float | None]) -> float | None:
    """Return the sum in minutes, None if any is unknown."""
    known = [value for value in seconds if value is not None]
    return sum(known) / 60 if len(known) == len(seconds) else None
