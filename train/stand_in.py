"""Artefacts whose model is the deployed one, asked a parity query instead: what untrained codes need."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from parm_ray.models.manifest import CodeSpec, Manifest, save_manifest


def described(
    deployed: Manifest, name: str, code: CodeSpec, provenance: dict[str, str], metrics: dict[str, float]
) -> Manifest:
    """Return the deployed model's manifest as a parity artefact's of `code`."""
    return deployed.model_copy(
        update={
            "name": f"{deployed.name}-{name}",
            "code": code,
            "provenance": provenance,
            "metrics": metrics,
        }
    )


def write_stand_in(deployed_dir: Path, manifest: Manifest, directory: Path) -> None:
    """Write `manifest` into `directory` (made if missing), beside the deployed model's weights.

    The weights are linked where the file system can, and copied where not.
    """
    directory.mkdir(parents=True, exist_ok=True)
    weights = manifest.model.weights
    if weights is not None:
        source, target = deployed_dir / weights, directory / weights
        target.unlink(missing_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)
    save_manifest(manifest, directory)
