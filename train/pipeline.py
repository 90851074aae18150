"""A whole run: the deployed model, then the parity models of every code, each measured and kept.

What is already there is not trained again. An artefact is up to date when its manifest carries the
recipe's hash and, for a parity model, the digest of the deployed weights it was trained against.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path

import torch
from torch import nn

from parm_ray.core.errors import ConfigError
from parm_ray.models.loading import code_of
from parm_ray.models.manifest import Manifest, load_manifest
from parm_ray.models.torch_loader import build_net, load_torch, load_weights, normaliser_of, pick_device
from train.base import train_deployed
from train.data import Dataset, load_dataset
from train.evaluate import accuracy, evaluate, predict_all
from train.export import WEIGHTS, add_metrics, describe, export
from train.groups import ViewBank, make_bank
from train.optimise import Report, ignore
from train.parity import code_spec, raw_fill, train_parity
from train.recipe import ParityRecipe, Recipe
from train.results import Row, parity_metrics, row_of

QUERIES = "queries.npz"
Progress = Callable[[str], AbstractContextManager[Report]]
"""Called with a model's name; yields what its training reports to."""


def silent(name: str) -> AbstractContextManager[Report]:
    """Show no progress."""
    return nullcontext(ignore)


class Run:
    """One recipe carried out under `out`/<dataset>; `rows()` does the work.

    command: how it was started, kept in the manifests. force: train again what is up to date.
    threads: CPU threads instead of the recipe's.
    """

    def __init__(
        self,
        recipe: Recipe,
        out: Path,
        *,
        device: str = "auto",
        force: bool = False,
        threads: int | None = None,
        command: str = "",
        progress: Progress = silent,
    ) -> None:
        self.recipe = recipe
        self.root = out / recipe.dataset
        self._device = pick_device(device)
        self._force = force
        self._threads = threads or recipe.threads
        self._progress = progress
        self._provenance = {"recipe": recipe.name, "command": command, "torch": torch.__version__}
        self._banks: dict[tuple[int, int], ViewBank] = {}

    def rows(self) -> list[Row]:
        """Train what is missing or out of date; return a row for the deployed and each parity model."""
        before = torch.get_num_threads()
        torch.set_num_threads(self._threads or before)
        try:
            rows = [self._deployed()]
            for parity in self.recipe.parities:
                rows += self._parity(parity, rows[0].a_a)
            return rows
        finally:
            torch.set_num_threads(before)

    @cached_property
    def _dataset(self) -> Dataset:
        return load_dataset(self.recipe.dataset, self.recipe.test_size, self.recipe.split_seed)

    @cached_property
    def _deployed_manifest(self) -> Manifest:
        return load_manifest(self.root / "deployed")

    @cached_property
    def _deployed_net(self) -> nn.Module:
        net = build_net(self._deployed_manifest.model)
        load_weights(net, self.root / "deployed" / WEIGHTS)
        return net.to(self._device).eval()

    def _deployed(self) -> Row:
        directory, wanted = self.root / "deployed", {"recipe_hash": self.recipe.deployed_hash()}
        kept = self._kept(directory, wanted)
        if kept is not None:
            return row_of(kept, directory, cached=True)
        provenance = self._provenance | wanted | {"settings": self.recipe.deployed.model_dump_json()}
        manifest = describe(self.recipe.dataset, self._dataset, self.recipe.deployed.net, None, provenance)
        began = time.perf_counter()
        with self._progress("deployed") as report:
            net = train_deployed(self.recipe.deployed, self._dataset, self._device, report)
        seconds = time.perf_counter() - began
        export(net, manifest, directory)
        self._dataset.save_queries(self.root / QUERIES)
        served = load_torch(manifest, directory, str(self._device))
        outputs = predict_all(served, self._dataset.test_images)
        metrics = {"a_a": accuracy(outputs, self._dataset.test_labels), "seconds": seconds}
        return row_of(add_metrics(manifest, metrics, directory), directory, cached=False)

    def _parity(self, parity: ParityRecipe, a_a: float) -> list[Row]:
        directories = [self.root / parity.directory(row) for row in range(parity.r)]
        wanted = {
            "recipe_hash": self.recipe.parity_hash(parity),
            "deployed_weights": _digest(self.root / "deployed" / WEIGHTS),
        }
        kept = [self._kept(directory, wanted) for directory in directories]
        if all(kept):
            return [row_of(m, d, cached=True) for m, d in zip(kept, directories, strict=True) if m]
        provenance = self._provenance | wanted | {"settings": parity.model_dump_json()}
        manifests, seconds = [], []
        for row, directory in enumerate(directories):
            name = f"{self.recipe.dataset}-{directory.name}"
            net_recipe = parity.net or self.recipe.deployed.net
            manifest = describe(name, self._dataset, net_recipe, code_spec(parity, row), provenance)
            bank = self._bank(parity)
            began = time.perf_counter()
            with self._progress(directory.name) as report:
                net = train_parity(parity, manifest, self._deployed_net, bank, self._device, report)
            seconds.append(time.perf_counter() - began)
            export(net, manifest, directory)
            manifests.append(manifest)
        metrics = self._measure(manifests, directories, a_a, seconds)
        return [
            row_of(add_metrics(manifest, measured, directory), directory, cached=False)
            for manifest, measured, directory in zip(manifests, metrics, directories, strict=True)
        ]

    def _measure(
        self, manifests: list[Manifest], directories: list[Path], a_a: float, seconds: list[float]
    ) -> list[dict[str, float]]:
        deployed = load_torch(self._deployed_manifest, self.root / "deployed", str(self._device))
        served = [load_torch(m, d, str(self._device)) for m, d in zip(manifests, directories, strict=True)]
        rows = evaluate(
            code_of(manifests[0]),
            served,
            self._dataset.test_images,
            self._dataset.test_labels,
            predict_all(deployed, self._dataset.test_images),
            raw_fill(manifests[0]).astype(self._dataset.test_images.dtype),
            rounds=self.recipe.evaluation_rounds,
        )
        return [parity_metrics(a_a, row, took) for row, took in zip(rows, seconds, strict=True)]

    def _bank(self, parity: ParityRecipe) -> ViewBank:
        key = (parity.views, parity.shift)
        if key not in self._banks:
            self._banks[key] = make_bank(
                self._deployed_net,
                normaliser_of(self._deployed_manifest, self._device),
                torch.from_numpy(self._dataset.train_images),
                torch.from_numpy(self._dataset.train_labels),
                views=parity.views,
                shift=parity.shift,
                generator=torch.Generator().manual_seed(self.recipe.deployed.seed),
            )
        return self._banks[key]

    def _kept(self, directory: Path, wanted: dict[str, str]) -> Manifest | None:
        """Return the manifest of an artefact that is complete, measured and of this recipe."""
        if self._force or not (directory / WEIGHTS).is_file():
            return None
        try:
            manifest = load_manifest(directory)
        except ConfigError:
            return None
        current = wanted.items() <= manifest.provenance.items() and "seconds" in manifest.metrics
        return manifest if current else None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
