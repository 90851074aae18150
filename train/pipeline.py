"""A whole run: the deployed model, then the parity models of every code, each measured and kept.

What is already there is not trained again. An artefact is up to date when its manifest carries the
recipe's hash and, for a parity model, the digest of the deployed weights it was trained against.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from parm_ray.core.errors import ConfigError
from parm_ray.models.loading import code_of
from parm_ray.models.manifest import Manifest, load_manifest
from parm_ray.models.torch_loader import build_net, load_torch, load_weights, normaliser_of, pick_device
from train.base import answer, train_deployed
from train.data import Dataset, load_dataset
from train.evaluate import accuracy, evaluate, predict_all
from train.export import WEIGHTS, add_metrics, describe, export
from train.fit import CHECKPOINT, Fit, Report, ignore
from train.groups import ViewBank, make_bank
from train.parity import code_spec, raw_fill, train_parity
from train.recipe import OptimiserRecipe, ParityRecipe, Recipe
from train.results import Row, parity_metrics, row_of
from train.validate import DeployedValidation, ParityValidation

QUERIES = "queries.npz"
Progress = Callable[[str], AbstractContextManager[Report]]
"""Called with a model's name; yields what its training reports to."""


def silent(name: str) -> AbstractContextManager[Report]:
    """Show no progress."""
    return nullcontext(ignore)


class Run:
    """One recipe carried out under `out`/<dataset>; `rows()` does the work.

    command: how it was started, kept in the manifests. force: train again what is up to date.
    threads: CPU threads instead of the recipe's. data: the directory the data set lies in, where it
    does not come with a package. only: names of parity artefacts, None = all of the recipe's.
    Raises ConfigError naming `only` if the recipe has no such artefact.
    """

    def __init__(
        self,
        recipe: Recipe,
        out: Path,
        *,
        device: str = "auto",
        force: bool = False,
        threads: int | None = None,
        data: Path | None = None,
        only: Collection[str] | None = None,
        command: str = "",
        progress: Progress = silent,
    ) -> None:
        self.recipe = recipe
        self.root = out / (recipe.folder or recipe.dataset)
        self._data = data
        self._parities = _chosen(recipe, only)
        self._device = pick_device(device)
        self._force = force
        self._threads = threads or recipe.threads
        self._progress = progress
        self._provenance = {"recipe": recipe.name, "command": command, "torch": torch.__version__}
        self._banks: dict[tuple[int, int, bool], tuple[ViewBank, float]] = {}

    def rows(self) -> list[Row]:
        """Train what is missing or out of date; return a row for the deployed and each parity model."""
        before = torch.get_num_threads()
        torch.set_num_threads(self._threads or before)
        try:
            rows = [self._deployed()]
            for parity in self._parities:
                rows += self._parity(parity, rows[0].a_a)
            return rows
        finally:
            torch.set_num_threads(before)

    @cached_property
    def _dataset(self) -> Dataset:
        recipe = self.recipe
        return load_dataset(
            recipe.dataset,
            recipe.test_size,
            recipe.split_seed,
            self._data,
            recipe.train_size,
            recipe.validation_size,
        )

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
        validation = None
        if self.recipe.validation_size:
            normaliser = normaliser_of(manifest, self._device)
            validation = DeployedValidation(self._dataset.task, normaliser, *self._validation)
        with self._fit(directory, wanted, self.recipe.deployed, validation) as make_fit:
            net, seconds = train_deployed(self.recipe.deployed, self._dataset, self._device, make_fit)
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
            bank, answering = self._bank(parity)
            validation = None
            if self.recipe.validation_size:
                seen = (*self._validation, self._validation_outputs)
                validation = ParityValidation(self._dataset.task, manifest, self._device, *seen)
            with self._fit(directory, wanted, parity, validation) as make_fit:
                net, took = train_parity(parity, manifest, self._deployed_net, bank, self._device, make_fit)
                export(net, manifest, directory)
            seconds.append(answering + took)
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

    @contextmanager
    def _fit(
        self,
        directory: Path,
        wanted: dict[str, str],
        optimiser: OptimiserRecipe,
        validation: Callable[[nn.Module], float] | None,
    ) -> Iterator[Callable[[int], Fit]]:
        """Yield what makes a Fit of so many steps; its checkpoint goes when the block ends well."""
        with self._progress(directory.name) as report:

            def make(steps: int) -> Fit:
                return Fit(
                    optimiser,
                    steps,
                    folder=directory,
                    identity="-".join(wanted.values()),
                    report=report,
                    validate=validation,
                    validate_every=self.recipe.validate_every,
                )

            yield make
        (directory / CHECKPOINT).unlink(missing_ok=True)

    @cached_property
    def _validation(self) -> tuple[Tensor, Tensor]:
        data = self._dataset
        return torch.from_numpy(data.validation_images), torch.from_numpy(data.validation_labels)

    @cached_property
    def _validation_outputs(self) -> Tensor:
        return answer(
            self._deployed_net, normaliser_of(self._deployed_manifest, self._device), self._validation[0]
        )

    def _bank(self, parity: ParityRecipe) -> tuple[ViewBank, float]:
        """Return the views and the seconds that answering them took, part of every training's cost."""
        key = (parity.views, parity.shift, parity.flip)
        if key not in self._banks:
            began = time.perf_counter()
            bank = make_bank(
                self._deployed_net,
                normaliser_of(self._deployed_manifest, self._device),
                torch.from_numpy(self._dataset.train_images),
                torch.from_numpy(self._dataset.train_labels),
                views=parity.views,
                shift=parity.shift,
                flip=parity.flip,
                generator=torch.Generator().manual_seed(self.recipe.deployed.seed),
            )
            self._banks[key] = bank, time.perf_counter() - began
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


def _chosen(recipe: Recipe, only: Collection[str] | None) -> tuple[ParityRecipe, ...]:
    if only is None:
        return recipe.parities
    by_name = {parity.directory(0): parity for parity in recipe.parities}
    unknown = sorted(set(only) - by_name.keys())
    if unknown:
        raise ConfigError(f"only: {', '.join(unknown)} not in the recipe, which has {', '.join(by_name)}")
    return tuple(parity for name, parity in by_name.items() if name in only)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
