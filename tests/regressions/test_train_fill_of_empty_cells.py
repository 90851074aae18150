"""A concatenation of 3 has a cell that no slot owns. It once held 0 in the training log's validation and in
`load_tests.replay`, and the mean everywhere else, so both told of a worse model than the one that served."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # `train` is not installed
    sys.path.insert(0, str(ROOT))

from load_tests import replay  # noqa: E402
from load_tests.lost_answers import Answer  # noqa: E402
from load_tests.phase import LabelledImages  # noqa: E402
from parm_ray.core import Outcome  # noqa: E402
from parm_ray.models.loading import code_of, fill_of  # noqa: E402
from train.data import load_dataset  # noqa: E402
from train.export import describe  # noqa: E402
from train.parity import code_spec  # noqa: E402
from train.recipe import load_recipe  # noqa: E402
from train.task import CLASSES  # noqa: E402
from train.validate import ParityValidation  # noqa: E402

K = 3


def _made():
    recipe = load_recipe("tiny")
    assert recipe.deployed is not None
    parity = recipe.parities[1].model_copy(update={"k": K})
    assert (parity.encoder, parity.decoder) == ("concat", "slot")
    data = load_dataset("digits", 397)
    return data, describe("m", data, recipe.deployed.net, code_spec(parity, 0), {})


def test_validation_encodes_what_the_front_end_encodes() -> None:
    data, manifest = _made()
    images, labels = torch.from_numpy(data.test_images[:9]), torch.from_numpy(data.test_labels[:9])
    seen = []

    class Watching(torch.nn.Module):
        def forward(self, parities):
            seen.append(parities)
            return torch.zeros(len(parities), K, 10)

    validation = ParityValidation(CLASSES, manifest, torch.device("cpu"), images, labels, torch.zeros(9, 10))
    validation(Watching())
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0)).reshape(K, -1).numpy()
    [wanted] = code_of(manifest).encode([data.test_images[m] for m in order], fill_of(manifest))
    mean, std = manifest.preprocessing.mean[0], manifest.preprocessing.std[0]
    np.testing.assert_allclose(seen[0][:, 0].numpy(), (wanted[..., 0] - mean) / std, atol=1e-4)


def test_replay_encodes_what_the_front_end_encodes(monkeypatch: pytest.MonkeyPatch) -> None:
    data, manifest = _made()
    seen = []

    class Watching:
        def predict(self, parities):
            seen.append(parities)
            return np.zeros((len(parities), K, 10), np.float32)

    monkeypatch.setattr(replay, "load_predictor", lambda path: (manifest, Watching()))
    images = LabelledImages(data.test_images, data.test_labels)
    group = [Answer(i, Outcome.RECONSTRUCTED, 0, i, np.zeros(10, np.float32)) for i in range(K)]
    replay.replay([group], images, Path("unused"))
    [wanted] = code_of(manifest).encode([data.test_images[i : i + 1] for i in range(K)], fill_of(manifest))
    assert np.array_equal(seen[0], wanted)
