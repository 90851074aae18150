"""Makes the artefact of each rival of one recipe, where it has one, and its row of results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from pydantic import BaseModel
from torch import nn

from parm_ray.codes import Code
from parm_ray.core.errors import ConfigError
from parm_ray.models.loading import code_of, load_predictor
from parm_ray.models.manifest import CodeSpec, Manifest, load_manifest
from parm_ray.models.predictor import Predictor
from parm_ray.models.torch_loader import Normaliser, normaliser_of, pick_device
from train.backup import BackupRecipe, default_accuracy, train_backup
from train.banks import Banks
from train.data import Dataset, task_of
from train.evaluate import evaluate, predict_all
from train.export import WEIGHTS, export
from train.figures import late_answers, short_name
from train.fit import CHECKPOINT, Fit
from train.latency import Ratios, measure
from train.learned import LearnedRecipe, train_learned
from train.parity import raw_fill
from train.plain_berrut import measure_plain
from train.ready import digest_of, net_in
from train.recipe import OptimiserRecipe, Recipe
from train.results import Row
from train.results.store import commit, cpu_model
from train.stand_in import described, write_stand_in

CODER = "code.npz"
"""The learned encoder's and decoder's file, in a parity artefact's directory."""


class Rivals:
    """What stands against the codes of one recipe, on its deployed artefact under `out`.

    steps: of each trained rival, None = as many as its own recipe says. data: see `load_dataset`.
    Raises ConfigError if the artefact is not there or answers something else than logits.
    """

    def __init__(
        self,
        recipe: Recipe,
        out: Path,
        *,
        device: str = "auto",
        data: Path | None = None,
        steps: int | None = None,
        force: bool = False,
    ) -> None:
        if recipe.outputs != "logits":
            raise ConfigError(f"outputs: expected logits, which rivals decode, got {recipe.outputs}")
        self.recipe, self.device = recipe, pick_device(device)
        self._root = out / (recipe.folder or recipe.dataset)
        self._data, self._force = data, force
        self._deployed_dir = self._root / "deployed"
        self._manifest = load_manifest(self._deployed_dir)
        if self._manifest.provenance.get("recipe_hash") != recipe.deployed_hash():
            raise ConfigError(
                f"{self._deployed_dir}: not the deployed model of recipe {recipe.name}; train it first: "
                f"python -m train.run --recipe {recipe.name}"
            )
        if not task_of(recipe.dataset).of_classes:
            raise ConfigError(f"dataset: rivals answer classes, not {recipe.dataset}")
        some: dict[str, object] = {} if steps is None else {"steps": steps}
        if recipe.parities:
            first = recipe.parities[0]
            some |= {"views": first.views, "shift": first.shift, "flip": first.flip}
        self._makers: dict[str, Callable[[], Row]] = {}
        for k in (2, 4, 8):
            for decoder in ("berrut", "subtract"):
                self._makers[f"berrut_{decoder}_k{k}"] = partial(self._berrut, decoder, k)
            self._makers[f"plain_berrut_k{k}"] = partial(self._plain, k)
        for k in (2, 4):
            self._makers[f"learned_learned_k{k}"] = partial(
                self._learned, LearnedRecipe.model_validate({"k": k, **some})
            )
        self._makers["backup"] = partial(self._backup, BackupRecipe.model_validate(some))
        self._makers["default"] = self._default

    def chosen(self, only: Collection[str] | None) -> list[str]:
        """Return the names of the rivals, or of those asked for. Raises ConfigError naming `only`."""
        unknown = sorted(set(only or ()) - self._makers.keys())
        if unknown:
            raise ConfigError(f"only: no rival {', '.join(unknown)}; there are {', '.join(self._makers)}")
        return [name for name in self._makers if only is None or name in only]

    def row(self, name: str) -> Row:
        """Make the rival, trained only if it is not there yet, measure it and return its row."""
        return self._makers[name]()

    def _berrut(self, decoder: str, k: int) -> Row:
        directory = self._root / f"berrut_{decoder}_k{k}"
        manifest = self._described(directory.name, CodeSpec(encoder="berrut", decoder=decoder, k=k))
        write_stand_in(self._deployed_dir, manifest, directory)
        return self._served(manifest, directory, None)

    def _plain(self, k: int) -> Row:
        data, rounds = self._dataset, self.recipe.evaluation_rounds
        found = measure_plain(k, self._deployed, data.test_images, data.test_labels, rounds=rounds)
        return self._row_of(
            encoder="plain_berrut",
            decoder="plain_berrut",
            k=k,
            r=1,
            a_a=found.all_answered,
            a_d=found.mean,
            a_d_by_slot=found.by_slot,
            a_d_worst=found.worst,
        )

    def _learned(self, recipe: LearnedRecipe) -> Row:
        code = CodeSpec(encoder="learned", decoder="learned", k=recipe.k, weights=CODER)
        directory, wanted = self._root / f"learned_learned_k{recipe.k}", self._identity(recipe)
        manifest = self._kept(directory, wanted)
        if manifest is None:
            directory.mkdir(parents=True, exist_ok=True)
            make_fit = partial(_fit, recipe, directory, wanted)
            bank, answering = self._banks.of(recipe, recipe.k)
            coder, took = train_learned(recipe, self._manifest, self._net, bank, self._normaliser, make_fit)
            seconds = answering + took
            coder.file().save(directory / CODER)
            write_stand_in(
                self._deployed_dir, self._described(directory.name, code, wanted, seconds), directory
            )
            (directory / CHECKPOINT).unlink(missing_ok=True)
            manifest = load_manifest(directory)
        return self._served(manifest, directory, manifest.metrics["seconds"])

    def _backup(self, recipe: BackupRecipe) -> Row:
        directory, wanted = self._root / "backup", self._identity(recipe)
        manifest = self._kept(directory, wanted)
        if manifest is None:
            directory.mkdir(parents=True, exist_ok=True)
            make_fit = partial(_fit, recipe, directory, wanted)
            bank, answering = self._banks.of(recipe, 1)
            net, took = train_backup(recipe, self._manifest, bank, self._normaliser, make_fit)
            seconds = answering + took
            model = recipe.net_for(self._manifest).source(self._manifest.output.shape[0], None, WEIGHTS)
            # Of k = 1 slot, a parity is a copy of the query: a replica of the backup serves as its model.
            code = CodeSpec(encoder="replicate", decoder="copy", k=1)
            manifest = self._described(directory.name, code, wanted, seconds)
            manifest = manifest.model_copy(update={"model": model})
            export(net, manifest, directory)
            (directory / CHECKPOINT).unlink(missing_ok=True)
        row = self._served(manifest, directory, manifest.metrics["seconds"])
        changes = {"encoder": None, "decoder": "backup", "k": None, "r": None, "a_d_by_slot": None}
        return row.model_copy(update={**changes, "encode_ratio": None, "decode_ratio": None})

    def _default(self) -> Row:
        share = default_accuracy(self._dataset.train_labels, self._dataset.test_labels)
        return self._row_of(decoder="default", a_a=self._a_a, a_d=share)

    def _served(self, manifest: Manifest, directory: Path, seconds: float | None) -> Row:
        """Measure a code through the artefact, loaded as a replica loads it."""
        data, code = self._dataset, code_of(manifest)
        _, stand_in = load_predictor(directory, str(self.device))
        fill = raw_fill(manifest).astype(data.test_images.dtype)
        found = evaluate(
            code,
            [stand_in],
            data.test_images,
            data.test_labels,
            self._outputs,
            fill,
            rounds=self.recipe.evaluation_rounds,
            task=data.task,
        )
        [one] = [degraded for degraded in found if degraded.lost == 1]
        ratios = self._ratios(code, stand_in)
        return self._row_of(
            encoder=code.encoder.name,
            decoder=code.decoder.name,
            parity_model=short_name(manifest.model),
            k=code.k if code.k > 1 else None,
            r=code.r,
            answered=(0,),
            a_a=self._a_a,
            a_d=one.a_d,
            a_d_by_slot=one.a_d_by_slot,
            a_d_short=one.a_d_short,
            agreement=one.agreement,
            encode_ratio=ratios.encode,
            decode_ratio=ratios.decode,
            stand_in_ratio=ratios.stand_in,
            train_minutes=None if seconds is None else seconds / 60,
            trained_on=None if seconds is None else cpu_model(),
            recipe_hash=manifest.provenance.get("recipe_hash"),
        )

    def _ratios(self, code: Code, stand_in: Predictor) -> Ratios:
        query, output = self._dataset.test_images[:1], self._outputs[:1]
        return measure(code, self._deployed, stand_in, query, output)

    def _row_of(self, *, a_a: float, a_d: float, recipe_hash: str | None = None, **fields: object) -> Row:
        seed = self.recipe.deployed.seed if self.recipe.deployed else 0
        document = {
            "dataset": self.recipe.dataset,
            "model": short_name(self._manifest.model),
            "recipe": self.recipe.name,
            "lost": 1,
            "metric": self._dataset.task.metric,
            "a_a": a_a,
            "a_d": a_d,
            "seeds": (seed,),
            "recipe_hash": recipe_hash or self.recipe.deployed_hash(),
            "commit": commit(),
            **late_answers(a_a, a_d),
            **fields,
        }
        return Row.model_validate(document)

    def _described(
        self, name: str, code: CodeSpec, recipe_hash: str | None = None, seconds: float | None = None
    ) -> Manifest:
        provenance = {"recipe": self.recipe.name, "command": "python -m train.rivals"}
        provenance |= {"deployed_weights": self._digest}
        provenance |= {} if recipe_hash is None else {"recipe_hash": recipe_hash}
        metrics = {} if seconds is None else {"seconds": seconds}
        return described(self._manifest, name, code, provenance, metrics)

    def _kept(self, directory: Path, wanted: str) -> Manifest | None:
        """Return the manifest of a trained rival that is up to date."""
        try:
            manifest = load_manifest(directory)
        except ConfigError:
            return None
        kept = {
            "recipe_hash": wanted,
            "deployed_weights": self._digest,
        }.items() <= manifest.provenance.items()
        return manifest if kept and "seconds" in manifest.metrics and not self._force else None

    def _identity(self, recipe: BaseModel) -> str:
        settings = [self.recipe.deployed_hash(), recipe.model_dump(mode="json", exclude_defaults=True)]
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]

    @cached_property
    def _dataset(self) -> Dataset:
        return self.recipe.load_dataset(self._data)

    @cached_property
    def _banks(self) -> Banks:
        return Banks(self._net, self._manifest, self.device, self._dataset, None, seed=0)

    @cached_property
    def _net(self) -> nn.Module:
        return net_in(self._deployed_dir, self._manifest).to(self.device)

    @cached_property
    def _normaliser(self) -> Normaliser:
        return normaliser_of(self._manifest, self.device)

    @cached_property
    def _deployed(self) -> Predictor:
        return load_predictor(self._deployed_dir, str(self.device))[1]

    @cached_property
    def _outputs(self) -> np.ndarray:
        return predict_all(self._deployed, self._dataset.test_images)

    @cached_property
    def _a_a(self) -> float:
        return float(self._dataset.task.score(self._outputs, self._dataset.test_labels).mean())

    @cached_property
    def _digest(self) -> str:
        return digest_of(self._deployed_dir, self._manifest)


def _fit(recipe: OptimiserRecipe, directory: Path, identity: str, steps: int) -> Fit:
    return Fit(recipe, steps, folder=directory, identity=identity)
