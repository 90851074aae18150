"""The banks of views that a run's parity models draw their groups from, each made once."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch import Tensor, nn

from parm_ray.core.errors import ConfigError
from parm_ray.models.manifest import Manifest
from parm_ray.models.torch_loader import normaliser_of
from train.base import answer
from train.data import Dataset
from train.data.dataset import Images
from train.groups import ViewBank, make_bank
from train.logged import load_logged
from train.recipe import DistilledRecipe


class Banks:
    """Views of the data set's training queries or, if `logged` names a record, of the queries in it.

    net, manifest: the deployed model, on `device`. seed: of the views.
    """

    def __init__(
        self,
        net: nn.Module,
        manifest: Manifest,
        device: torch.device,
        dataset: Dataset,
        logged: Path | None,
        seed: int,
    ) -> None:
        self._net, self._manifest = net, manifest
        self._normaliser = normaliser_of(manifest, device)
        self._dataset, self._logged, self._seed = dataset, logged, seed
        self._made: dict[tuple[int, int, bool], tuple[ViewBank, float]] = {}

    def of(self, recipe: DistilledRecipe, k: int) -> tuple[ViewBank, float]:
        """Return views to draw groups of k from, and what answering them took: seconds of any training.

        Raises ConfigError naming `logged` if the record is wrong or holds fewer than k queries.
        """
        key = (recipe.views, recipe.shift, recipe.flip)
        if key not in self._made:
            began = time.perf_counter()
            inputs, labels, outputs = self._queries()
            bank = make_bank(
                self._net,
                self._normaliser,
                inputs,
                labels,
                views=recipe.views,
                shift=recipe.shift,
                flip=recipe.flip,
                generator=torch.Generator().manual_seed(self._seed),
                outputs=outputs,
            )
            self._made[key] = bank, time.perf_counter() - began
        bank, seconds = self._made[key]
        queries = len(bank.labels) // recipe.views
        if queries < k:
            raise ConfigError(f"logged: expected at least k = {k} queries, got {queries}")
        return bank, seconds

    def _queries(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return raw inputs, labels (-1 = not known) and the deployed model's answers, if known."""
        if self._logged is None:
            data = self._dataset
            return torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels), None
        logged = load_logged(
            self._logged, self._manifest, lambda inputs: answer(self._net, self._normaliser, inputs)
        )
        fresh = _not_among(logged.inputs, self._dataset.test_images)
        outputs = None if logged.outputs is None else logged.outputs[fresh]
        return logged.inputs[fresh], torch.full((int(fresh.sum()),), -1), outputs


def _not_among(inputs: Tensor, test: Images) -> Tensor:
    """Return bool `[n]`: which inputs are none of the test queries, which load tests send, too."""
    known = {query.tobytes() for query in test}
    return torch.tensor([query.tobytes() not in known for query in inputs.numpy()], dtype=torch.bool)
