"""Measures artefacts as they are served, and keeps what came out beside them.

The manifest gets a few flat figures, for whoever serves the artefact; `measurement.json`, in the
directory of the code's first row, holds all of it. It counts as long as the weights, the recipe and
the way of measuring are the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from parm_ray.models.loading import code_of, load_predictor
from parm_ray.models.manifest import Manifest, load_manifest
from parm_ray.models.predictor import Predictor
from train.data import Dataset
from train.evaluate import Array, evaluate, predict_all, score
from train.export import add_metrics
from train.figures import (
    confidence_of,
    curve_of,
    flat_metrics,
    hardware_of,
    late_answers,
    minutes_of,
    seconds_of,
    short_name,
    variant_of,
)
from train.parity import raw_fill
from train.ready import digest_of
from train.results.artefacts import Artefact, artefact_of
from train.results.rows import Row
from train.results.store import Hardware, commit

MEASURING = 2
"""Part of what a measurement is known by. Raise it when the same weights would be measured otherwise."""

MEASUREMENT = "measurement.json"

Told = Callable[[list[Row], Hardware], object]
"""Called with the rows of each model as they are measured, or found measured."""


class Measurer:
    """Measures one deployed model, then its parity models, on one data set.

    deployed: the directory of its artefact. dataset: called when something has to be measured.
    recipe: its name; seed: what its seeds are. rounds: how often the test set is shuffled into
    groups. probabilities: what the models answer, instead of logits. ready: the deployed model was
    not trained here, and nothing is written beside it. tell: gets the rows; figures go into the
    manifests too.
    """

    def __init__(
        self,
        deployed: Path,
        dataset: Callable[[], Dataset],
        device: torch.device,
        *,
        recipe: str,
        seed: int,
        rounds: int,
        probabilities: bool,
        ready: bool,
        tell: Told,
    ) -> None:
        self._directory, self._make_dataset, self._device = deployed, dataset, device
        self._recipe, self._seed, self._rounds = recipe, seed, rounds
        self._probabilities, self._ready = probabilities, ready
        self._tell = tell
        self._outputs: Array | None = None
        self._deployed: Row | None = None

    def deployed(self, manifest: Manifest, recipe_hash: str, took: float | None = None) -> Artefact:
        """Return the deployed model's line, measured if it was not so before.

        took: seconds of its training, None = it was there already.
        """
        rows = self._kept([manifest], [self._directory]) if took is None else None
        if rows is None:
            seconds = seconds_of(manifest, self._directory) if took is None else took
            data = self._make_dataset()
            scores = score(data.task, self._answers(), data.test_labels, self._probabilities)
            row = Row(
                **self._names(manifest, self._directory, recipe_hash),
                a_a=scores.mean,
                **confidence_of(scores),
                deployed_ece=scores.ece,
                train_minutes=minutes_of([seconds]),
                train_ratio=None if seconds is None else 1.0,
            )
            rows = [row]
            metrics = {"a_a": row.a_a} | ({} if seconds is None else {"seconds": seconds})
            manifest = self._keep([manifest], [self._directory], rows, [metrics])[0]
        self._deployed = rows[0]
        self._tell(rows, hardware_of(self._device))
        return artefact_of(manifest, self._directory, cached=took is None)

    def code(
        self,
        manifests: Sequence[Manifest],
        directories: Sequence[Path],
        recipe_hash: str,
        took: Sequence[float] | None = None,
    ) -> list[Artefact]:
        """Return a line for the parity model of each row of one code, measured if not so before.

        `deployed` comes first. took: seconds of each training, None = they were there already.
        """
        rows = self._kept(manifests, directories) if took is None else None
        if rows is None:
            before = [seconds_of(m, d) for m, d in zip(manifests, directories, strict=True)]
            seconds = before if took is None else list(took)
            rows, metrics = self._measured(manifests, directories, seconds, recipe_hash)
            manifests = self._keep(manifests, directories, rows, metrics)
        self._tell(rows, hardware_of(self._device))
        lines = zip(manifests, directories, strict=True)
        return [artefact_of(m, d, cached=took is None) for m, d in lines]

    def _measured(
        self,
        manifests: Sequence[Manifest],
        directories: Sequence[Path],
        seconds: Sequence[float | None],
        recipe_hash: str,
    ) -> tuple[list[Row], list[dict[str, float]]]:
        deployed, data = self._deployed, self._make_dataset()
        assert deployed is not None
        found = evaluate(
            code_of(manifests[0]),
            [self._served(directory) for directory in directories],
            data.test_images,
            data.test_labels,
            self._answers(),
            raw_fill(manifests[0]).astype(data.test_images.dtype),
            rounds=self._rounds,
            task=data.task,
            probabilities=self._probabilities,
        )
        names = self._names(manifests[0], directories[0], recipe_hash)
        rows = []
        for degraded in found:
            # The control needs the first row's model alone.
            minutes = minutes_of(seconds[:1] if degraded.control else seconds)
            row = Row(
                **names,
                lost=degraded.lost,
                answered=degraded.answered,
                control=degraded.control,
                a_a=deployed.a_a,
                a_d=degraded.a_d,
                a_d_by_slot=degraded.a_d_by_slot,
                a_d_short=degraded.a_d_short,
                agreement=degraded.agreement,
                **late_answers(deployed.a_a, degraded.a_d),
                **confidence_of(degraded.scores),
                deployed_ece=deployed.ece,
                train_minutes=minutes,
                train_ratio=minutes / deployed.train_minutes if minutes and deployed.train_minutes else None,
            )
            rows.append(row)
        return rows, [flat_metrics(deployed.a_a, found, row, took) for row, took in enumerate(seconds)]

    def _answers(self) -> Array:
        """Return the deployed model's answers to the test set, `[n, *output]`, asked for once."""
        if self._outputs is None:
            self._outputs = predict_all(self._served(self._directory), self._make_dataset().test_images)
        return self._outputs

    def _served(self, directory: Path) -> Predictor:
        _, predictor = load_predictor(directory, str(self._device), torch.get_num_threads())
        return predictor

    def _names(self, manifest: Manifest, directory: Path, recipe_hash: str) -> dict[str, Any]:
        """Return what a row says beside figures."""
        names: dict[str, Any] = {
            "dataset": self._make_dataset().name,
            "model": short_name(load_manifest(self._directory).model),
            "recipe": self._recipe,
            "metric": self._make_dataset().task.metric,
            "seeds": (self._seed,),
            "trained_on": manifest.provenance.get("hardware"),
            "recipe_hash": recipe_hash,
            "commit": commit(),
            "curve": curve_of(directory),
        }
        if manifest.code is not None:
            spec = manifest.code
            names |= {"encoder": spec.encoder, "decoder": spec.decoder, "k": spec.k, "r": spec.r}
            names |= {"parity_model": short_name(manifest.model), "variant": variant_of(manifest)}
        return names

    def _kept(self, manifests: Sequence[Manifest], directories: Sequence[Path]) -> list[Row] | None:
        """Return the rows measured before, None if there are none or they are of something else."""
        path = directories[0] / MEASUREMENT
        if self._ready and directories[0] == self._directory:
            return None  # What lies beside a ready model was measured for another run, perhaps on other data.
        if not path.is_file() or not all("a_a" in manifest.metrics for manifest in manifests):
            return None
        try:
            document = json.loads(path.read_text())
            if document["identity"] != self._identity(manifests, directories):
                return None
            # Two recipes may have a deployed model in common, whichever of them measured it.
            return [Row.model_validate({**row, "recipe": self._recipe}) for row in document["rows"]]
        except (ValidationError, ValueError, KeyError, TypeError):
            return None

    def _keep(
        self,
        manifests: Sequence[Manifest],
        directories: Sequence[Path],
        rows: list[Row],
        metrics: list[dict[str, float]],
    ) -> list[Manifest]:
        """Write down what was measured; return the manifests with it."""
        if self._ready and directories[0] == self._directory:
            return [m.model_copy(update={"metrics": metrics[0] | m.metrics}) for m in manifests]
        document = {
            "identity": self._identity(manifests, directories),
            "rows": [row.model_dump(mode="json", exclude_defaults=True) for row in rows],
        }
        (directories[0] / MEASUREMENT).write_text(json.dumps(document) + "\n")
        together = zip(manifests, metrics, directories, strict=True)
        return [add_metrics(manifest, figures, directory) for manifest, figures, directory in together]

    def _identity(self, manifests: Sequence[Manifest], directories: Sequence[Path]) -> str:
        """Return what a measurement depends on: all weights, the recipe, the way of measuring."""
        weights = [digest_of(d, m) for m, d in zip(manifests, directories, strict=True)]
        recipes = [manifest.provenance.get("recipe_hash", "") for manifest in manifests]
        deployed = digest_of(self._directory, load_manifest(self._directory))
        return "-".join([str(MEASURING), str(self._rounds), deployed, *weights, *recipes])
