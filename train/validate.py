"""A quick accuracy on queries that are not trained on, for the curve in the training log.

Through torch, in one pass, one loss at a time; the figures that count come from `evaluate.py`,
through the numpy code and the artefact as it is served.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from parm_ray.models.manifest import Manifest
from parm_ray.models.torch_loader import Normaliser, normaliser_of
from train.base import answer
from train.parity import raw_fill
from train.task import Task
from train.torch_codes import TorchEncoder, target_coefficients


class DeployedValidation:
    """Accuracy of a deployed model on `images` (raw, `[n, H, W, C]`) with `labels`."""

    def __init__(self, task: Task, normaliser: Normaliser, images: Tensor, labels: Tensor) -> None:
        self._task, self._normaliser, self._images, self._labels = task, normaliser, images, labels

    def __call__(self, net: nn.Module) -> float:
        """Return the mean score, the share of right answers."""
        return _mean(self._task, answer(net, self._normaliser, self._images), self._labels)


class ParityValidation:
    """A_d of one parity row: each slot lost alone, in the same random groups every time."""

    def __init__(
        self,
        task: Task,
        manifest: Manifest,
        device: torch.device,
        images: Tensor,
        labels: Tensor,
        outputs: Tensor,
    ) -> None:
        self._task = task
        assert manifest.code is not None
        k = manifest.code.k
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
        members = order[: len(labels) // k * k].reshape(k, -1)
        encoder = TorchEncoder(manifest, torch.from_numpy(raw_fill(manifest)))
        self._parities = encoder.encode(images[members].float())
        self._labels, self._outputs = labels[members], outputs[members]
        self._normaliser = normaliser_of(manifest, device)
        self._coefficients = target_coefficients(manifest)

    def __call__(self, net: nn.Module) -> float:
        """Return the mean score of the reconstructions, over all slots."""
        answers = answer(net, self._normaliser, self._parities)
        if self._coefficients is None:
            rebuilt = answers.transpose(0, 1)
        else:
            weights = self._coefficients[:, None, None]
            others = torch.tensordot(self._coefficients, self._outputs, dims=1) - weights * self._outputs
            rebuilt = (answers - others) / weights
        return _mean(self._task, rebuilt.flatten(0, 1), self._labels.flatten(0, 1))


def _mean(task: Task, outputs: Tensor, labels: Tensor) -> float:
    return float(task.score(outputs.numpy(), labels.numpy()).mean())
