"""The command: `python -m train.enlarge DIR --out DIR`: artefacts that take pictures `scale` times larger.

Nothing is trained: a picture is repeated pixel by pixel and channel by channel, and the net averages that
away again. So queries weigh scale² x channels as much on the network, and the answers stay what they were.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from parm_ray.core.errors import ConfigError, ParmError
from parm_ray.models.manifest import FILE_NAME, Manifest, load_manifest, save_manifest
from train.pipeline import QUERIES

FACTORY = "parm_ray.models.torch_enlarged:enlarged"


def main(
    source: Annotated[Path, typer.Argument(help="A recipe's artefacts, grey pictures.")],
    out: Annotated[Path, typer.Option(help="Where the new ones go.")],
    scale: Annotated[int, typer.Option(min=1, help="Times as high and as wide.")] = 8,
    channels: Annotated[int, typer.Option(min=1, help="Channels instead of one.")] = 3,
    queries: Annotated[int, typer.Option(min=1, help="Test queries to enlarge: the first ones.")] = 200,
) -> None:
    """Write an enlarged copy of every artefact in `source`, and of its test queries."""
    try:
        found = sorted(path.parent for path in source.glob(f"*/{FILE_NAME}"))
        if not found:
            raise ConfigError(f"{source}: no artefacts there")
        made = []
        for directory in found:
            manifest = load_manifest(directory)
            if manifest.model.factory is None or manifest.input.layout != "HWC":
                continue
            target = out / directory.name
            target.mkdir(parents=True, exist_ok=True)
            (target / FILE_NAME).unlink(missing_ok=True)
            shutil.copyfile(directory / str(manifest.model.weights), target / str(manifest.model.weights))
            save_manifest(_enlarged(manifest, scale, channels), target)
            made.append(directory.name)
        with np.load(source / QUERIES) as file:
            images = large(file["images"][:queries], scale, channels)
            np.savez_compressed(out / QUERIES, images=images, labels=file["labels"][:queries])
    except (ParmError, OSError) as error:
        Console(stderr=True).print(f"[red]error:[/red] {error}", soft_wrap=True)
        raise typer.Exit(2) from None
    print(f"{len(made)} artefacts and {len(images)} queries of {images.shape[1:]} in {out}")


def large(images: np.ndarray, scale: int, channels: int) -> np.ndarray:
    """Repeat the pixels of grey images `[n, h, w, 1]`; returns `[n, scale h, scale w, channels]`."""
    return images.repeat(scale, axis=1).repeat(scale, axis=2).repeat(channels, axis=3)


def _enlarged(manifest: Manifest, scale: int, channels: int) -> Manifest:
    height, width, grey = manifest.input.shape
    if grey != 1:
        raise ConfigError(f"{manifest.name}: input: expected grey pictures, got {grey} channels")
    model, preprocessing = manifest.model, manifest.preprocessing
    kwargs = {"factory": model.factory, "scale": scale, "channels": channels, "kwargs": model.kwargs}
    return manifest.model_copy(
        update={
            "input": manifest.input.model_copy(update={"shape": (scale * height, scale * width, channels)}),
            "preprocessing": preprocessing.model_copy(
                update={
                    "mean": tuple(preprocessing.mean) * channels,
                    "std": tuple(preprocessing.std) * channels,
                    "fill": None if preprocessing.fill is None else tuple(preprocessing.fill) * channels,
                }
            ),
            "model": model.model_copy(update={"factory": FACTORY, "kwargs": kwargs}),
        }
    )


if __name__ == "__main__":
    typer.run(main)
