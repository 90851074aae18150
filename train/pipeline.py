"""A whole run: the deployed model, then the parity models of every code, each measured and kept.

What is already there is not trained again. An artefact is up to date when its manifest carries the
recipe's hash and, for a parity model, the digest of the deployed weights it was trained against.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from parm_ray.core.errors import ConfigError
from parm_ray.models.manifest import FILE_NAME, Manifest, load_manifest
from parm_ray.models.torch_loader import normaliser_of, pick_device
from train.banks import Banks
from train.base import answer, train_deployed
from train.data import Dataset
from train.export import WEIGHTS, describe, export
from train.figures import machine
from train.fit import CHECKPOINT, Fit, Report, ignore
from train.logged import logged_digest
from train.measure import Measurer, Told
from train.parity import describe_parity, train_parity
from train.ready import digest_of, load_ready, net_in
from train.recipe import OptimiserRecipe, ParityRecipe, Recipe
from train.results import Artefact
from train.seeds import seed_of, seeded
from train.validate import DeployedValidation, ParityValidation
from train.worker import ALONE, Worker

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
    deployed: a ready artefact to make parity models for; none is trained then. logged: a directory
    of recorded queries (see `train.logged`) that parity models are trained on, without labels, instead
    of the training set. worker: one of several that each carry out the same run on the same files.
    measure_only: train nothing; what is not trained is named in `skipped`. results: called with the
    rows of each model as they are measured or found measured.
    Raises ConfigError naming `only` if the recipe has no such artefact, `deployed` if it has no
    deployed model and none is given.
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
        deployed: Path | None = None,
        logged: Path | None = None,
        command: str = "",
        progress: Progress = silent,
        worker: Worker = ALONE,
        measure_only: bool = False,
        results: Told = lambda rows, hardware: None,
    ) -> None:
        if recipe.deployed is None and deployed is None:
            raise ConfigError("deployed: the recipe trains none; expected a ready artefact (--deployed DIR)")
        self.recipe = recipe
        self.root = out / (recipe.folder or recipe.dataset)
        self._ready = deployed is not None
        self._deployed_dir = deployed or self.root / "deployed"
        self._logged = logged
        self._worker = worker
        self._measure_only, self._results = measure_only, results
        self.skipped: list[str] = []
        self._data = data
        self._parities = _chosen(recipe, only)
        self._device = pick_device(device)
        self._force = force
        self._threads = threads or recipe.threads
        self._progress = progress
        self._provenance = {"recipe": recipe.name, "command": command, "torch": torch.__version__}
        self._provenance["hardware"] = machine(self._device)

    def rows(self) -> list[Artefact]:
        """Train what is missing or out of date; return a row for the deployed and each parity model."""
        before = torch.get_num_threads()
        torch.set_num_threads(self._threads or before)
        try:
            rows = [self._deployed()]
            for parity in self._parities:
                rows += self._parity(parity)
            return rows
        finally:
            torch.set_num_threads(before)

    @cached_property
    def _dataset(self) -> Dataset:
        return self.recipe.load_dataset(self._data)

    @cached_property
    def _deployed_manifest(self) -> Manifest:
        return load_manifest(self._deployed_dir)

    @cached_property
    def _deployed_net(self) -> nn.Module:
        return net_in(self._deployed_dir, self._deployed_manifest).to(self._device)

    def _deployed(self) -> Artefact:
        if self._ready:
            return self._measured(load_ready(self._deployed_dir, self._dataset, self.recipe.outputs))
        recipe = self.recipe.deployed
        assert recipe is not None
        directory, wanted = self._deployed_dir, {"recipe_hash": self.recipe.deployed_hash()}
        kept = self._worker.agree(self._kept(directory, wanted))
        if kept is not None:
            return self._measured(kept)
        if self._measure_only:
            raise ConfigError(f"measure: {directory} holds no deployed model of recipe {self.recipe.name}")
        provenance = self._provenance | wanted | {"settings": recipe.model_dump_json()}
        recipe = recipe.model_copy(update={"net": recipe.net.ending_in(self.recipe.outputs)})
        manifest = describe(self.recipe.dataset, self._dataset, recipe.net, None, provenance)
        if self.recipe.outputs != "logits":
            output = manifest.output.model_copy(update={"name": self.recipe.outputs})
            manifest = manifest.model_copy(update={"output": output})
        validation = None
        if self.recipe.validation_size:
            normaliser = normaliser_of(manifest, self._device)
            validation = DeployedValidation(self._dataset.task, normaliser, *self._validation)
        with self._fit(directory, wanted, recipe, validation) as make_fit:
            net, seconds = train_deployed(recipe, self._dataset, self._device, make_fit)
            if self._worker.first:
                export(net, manifest, directory)
                self._dataset.save_queries(self.root / QUERIES)
        return self._measured(manifest, seconds)

    def _measured(self, manifest: Manifest, took: float | None = None) -> Artefact:
        line = None
        if self._worker.first:
            line = self._measurer.deployed(manifest, self._seedless.deployed_hash(), took)
        return cast(Artefact, self._worker.agree(line))

    def _parity(self, parity: ParityRecipe) -> list[Artefact]:
        directories = [self.root / parity.directory(row) for row in range(parity.r)]
        wanted = {
            "recipe_hash": self.recipe.parity_hash(parity),
            "deployed_weights": digest_of(self._deployed_dir, self._deployed_manifest),
        }
        if parity.init_from is not None:
            wanted["start_weights"] = digest_of(self.root / parity.init_from, self._start_manifest(parity))
        if self._logged is not None:
            wanted["recipe_hash"] += f"-{logged_digest(self._logged)}"
        kept = self._worker.agree([self._kept(directory, wanted) for directory in directories])
        if all(kept):
            return self._measure(parity, [manifest for manifest in kept if manifest], directories)
        if self._measure_only:
            self.skipped += [directory.name for directory in directories]
            return []
        provenance = self._provenance | wanted | {"settings": parity.model_dump_json()}
        manifests, seconds = [], []
        for row, directory in enumerate(directories):
            manifest = describe_parity(
                parity, row, self._deployed_manifest, self._dataset, self.recipe.outputs, provenance
            )
            bank, answering = self._banks.of(parity, parity.k)
            validation = None
            if self.recipe.validation_size:
                seen = (*self._validation, self._validation_outputs)
                validation = ParityValidation(self._dataset.task, manifest, self._device, *seen)
            with self._fit(directory, wanted, parity, validation) as make_fit:
                net, took = train_parity(
                    parity, manifest, self._start(parity), bank, self._device, make_fit, self.recipe.outputs
                )
                if self._worker.first:
                    export(net, manifest, directory)
            # The rows of a code share the answers: once is what they cost.
            seconds.append(took if row else answering + took)
            manifests.append(manifest)
        return self._measure(parity, manifests, directories, seconds)

    def _start(self, parity: ParityRecipe) -> nn.Module:
        """Return the net whose tensors a parity model starts from."""
        if parity.init_from is None:
            return self._deployed_net
        return net_in(self.root / parity.init_from, self._start_manifest(parity))

    def _start_manifest(self, parity: ParityRecipe) -> Manifest:
        directory = self.root / str(parity.init_from)
        if not (directory / FILE_NAME).is_file():
            raise ConfigError(f"{parity.directory(0)}: init_from: {directory} is not trained yet")
        return load_manifest(directory)

    def _measure(
        self,
        parity: ParityRecipe,
        manifests: list[Manifest],
        directories: list[Path],
        took: list[float] | None = None,
    ) -> list[Artefact]:
        """Return a line for each artefact of one code; took: None = they were there already."""
        lines: list[Artefact] = []
        if self._worker.first:
            same = next(p for p in self._seedless.parities if p.directory(0) == parity.directory(0))
            whole = self._seedless.parity_hash(same)
            lines = self._measurer.code(manifests, directories, whole, took)
        return self._worker.agree(lines)

    @cached_property
    def _measurer(self) -> Measurer:
        return Measurer(
            self._deployed_dir,
            lambda: self._dataset,
            self._device,
            recipe=self.recipe.name,
            seed=seed_of(self.recipe),
            rounds=self.recipe.evaluation_rounds,
            probabilities=self.recipe.outputs == "probabilities",
            ready=self._ready,
            tell=self._results,
        )

    @cached_property
    def _seedless(self) -> Recipe:
        """The recipe whose hash all seeds have in common."""
        return seeded(self.recipe, 0)

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
                    worker=self._worker,
                )

            yield make
        if self._worker.first:
            (directory / CHECKPOINT).unlink(missing_ok=True)

    @cached_property
    def _banks(self) -> Banks:
        seed = self.recipe.deployed.seed if self.recipe.deployed else 0
        net, manifest = self._deployed_net, self._deployed_manifest
        return Banks(net, manifest, self._device, self._dataset, self._logged, seed)

    @cached_property
    def _validation(self) -> tuple[Tensor, Tensor]:
        data = self._dataset
        return torch.from_numpy(data.validation_images), torch.from_numpy(data.validation_labels)

    @cached_property
    def _validation_outputs(self) -> Tensor:
        return answer(
            self._deployed_net, normaliser_of(self._deployed_manifest, self._device), self._validation[0]
        )

    def _kept(self, directory: Path, wanted: dict[str, str]) -> Manifest | None:
        """Return the manifest of an artefact that is complete and of this recipe."""
        if self._force or not (directory / WEIGHTS).is_file() or not (directory / FILE_NAME).is_file():
            return None
        manifest = load_manifest(directory)
        return manifest if wanted.items() <= manifest.provenance.items() else None


def _chosen(recipe: Recipe, only: Collection[str] | None) -> tuple[ParityRecipe, ...]:
    if only is None:
        return recipe.parities
    by_name = {parity.directory(0): parity for parity in recipe.parities}
    unknown = sorted(set(only) - by_name.keys())
    if unknown:
        raise ConfigError(f"only: {', '.join(unknown)} not in the recipe, which has {', '.join(by_name)}")
    return tuple(parity for name, parity in by_name.items() if name in only)
