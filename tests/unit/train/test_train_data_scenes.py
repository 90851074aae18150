import numpy as np
import pytest
import torch

from parm_ray.core.errors import ConfigError
from tests.support.data_set_files import write_mnist_like
from train.data import load_dataset, scenes
from train.data.scenes import compose
from train.pipeline import Run
from train.recipe import BUILT_IN, load_recipe
from train.task import BOXES, intersection_over_union, legal_boxes


def solid_items(count=6):
    """Bright rectangles of known proportions, 20 high and 10 wide."""
    items = np.zeros((count, 28, 28, 1), np.uint8)
    items[:, 4:24, 9:19] = 255
    return items


def test_the_box_is_what_the_item_covers():
    images, boxes = compose(solid_items(), 50, seed=3)
    assert images.shape == (50, 32, 32, 1)
    assert images.dtype == np.uint8
    assert boxes.dtype == np.float32
    low, high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    assert low.min() >= 0
    assert high.max() <= 1
    np.testing.assert_allclose(boxes[:, 2], boxes[:, 3] / 2, atol=0.5 / 32)
    for image, start, end in zip(images[..., 0], low * 32, high * 32, strict=True):
        left, top = np.rint(start).astype(int)
        right, bottom = np.rint(end).astype(int)
        assert image[top:bottom, left:right].min() > 200  # 255 less noise


def test_scenes_depend_on_the_seed_alone():
    first, again, other = (compose(solid_items(), 5, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.array_equal(first[1], other[1])


@pytest.fixture
def few(tmp_path, monkeypatch):
    """The data set of a few scenes, of items in files of Fashion-MNIST's format."""
    write_mnist_like(tmp_path, train=30, test=10)
    monkeypatch.setattr(scenes, "TRAIN", 60)
    monkeypatch.setattr(scenes, "TEST", 24)
    return tmp_path


def test_the_data_set_has_boxes_for_labels_and_no_classes(few):
    data = load_dataset("boxes", root=few, train_size=50, validation_size=10)
    assert (len(data.train_labels), len(data.validation_labels)) == (40, 10)
    assert data.train_labels.shape == (40, 4)
    assert data.train_labels.dtype == np.float32
    assert (data.output_spec.name, data.output_spec.shape) == ("box", (4,))
    assert data.class_names == ()
    assert data.task is BOXES


SMALL = """
name: small
dataset: boxes
validation_size: 10
evaluation_rounds: 1
threads: 1
deployed:
  net: {factory: "parm_ray.models.torch_nets:mlp", kwargs: {in_features: 1024, width: 16}}
  epochs: 2
  batch: 10
parities:
  - &linear {encoder: sum, decoder: subtract, k: 2, loss: mse, steps: 3, groups: 8, views: 2}
  - {<<: *linear, encoder: concat, decoder: slot}
"""


def test_a_recipe_trains_and_measures_overlap(few, tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    rows = Run(load_recipe(str(path)), tmp_path / "out", device="cpu", data=few).rows()
    assert [row.model for row in rows] == ["deployed", "sum_subtract_k2", "concat_slot_k2"]
    assert all(0 < row.a_a < 1 for row in rows)
    assert all(0 <= row.a_d < 1 for row in rows[1:])


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        (
            "epochs: 2",
            "epochs: 2\n  shift: 2",
            "deployed: shift: for boxes expected 0: the labels would not move",
        ),
        ("epochs: 2", "epochs: 2\n  flip: true", "deployed: flip: for boxes expected false"),
        ("epochs: 2", "epochs: 2\n  label_smoothing: 0.1", "deployed: label_smoothing: for boxes expected 0"),
        ("views: 2}", "views: 2, shift: 1}", r"parities.0: shift: for boxes expected 0"),
        ("decoder: slot}", "decoder: slot, loss: distillation}", "parities.1: loss: for boxes expected mse"),
        ("threads: 1", "outputs: probabilities", "outputs: for boxes expected logits"),
    ],
)
def test_a_recipe_that_would_spoil_the_boxes_is_refused(tmp_path, before, after, complaint):
    assert before in SMALL
    path = tmp_path / "small.yaml"
    path.write_text(SMALL.replace(before, after, 1))
    with pytest.raises(ConfigError, match=f"small.yaml: .*{complaint}"):
        load_recipe(str(path))
    assert load_recipe(str(BUILT_IN / "boxes_resnet.yaml")).dataset == "boxes"


def box(*values):
    return np.array([values], np.float32)


@pytest.mark.parametrize(
    ("first", "second", "overlap"),
    [
        (box(0.5, 0.5, 0.4, 0.4), box(0.5, 0.5, 0.4, 0.4), 1),
        (box(0.5, 0.5, 0.4, 0.4), box(0.7, 0.5, 0.4, 0.4), 1 / 3),
        (box(0.5, 0.5, 0.4, 0.4), box(0.5, 0.5, 0.2, 0.2), 1 / 4),
        (box(0.2, 0.2, 0.2, 0.2), box(0.8, 0.8, 0.2, 0.2), 0),
        (box(0.2, 0.2, 0.2, 0.2), box(0.2, 0.8, 0.2, 0.2), 0),
        (box(0.5, 0.5, 0, 0), box(0.5, 0.5, 0, 0), 0),
    ],
)
def test_overlap(first, second, overlap):
    assert intersection_over_union(first, second)[0] == pytest.approx(overlap, abs=1e-6)
    assert intersection_over_union(second, first)[0] == pytest.approx(overlap, abs=1e-6)


def test_answers_are_read_as_legal_boxes():
    outputs = np.concatenate([box(0.1, 0.5, 0.4, 0.2), box(0.5, 0.5, -1, 0.2), box(2, -3, 0.5, 0.5)])
    expected = np.concatenate([box(0.15, 0.5, 0.3, 0.2), box(0.5, 0.5, 0, 0.2), box(1, 0, 0, 0)])
    np.testing.assert_allclose(legal_boxes(outputs), expected, atol=1e-6)
    # What sticks out of the image is not counted against an answer.
    assert BOXES.score(outputs, expected)[0] == pytest.approx(1, abs=1e-6)
    assert BOXES.score(outputs, BOXES.read(outputs))[0] == pytest.approx(1, abs=1e-6)


def test_the_loss_is_least_at_the_label_and_grows_with_distance():
    label = torch.tensor([[0.5, 0.5, 0.2, 0.2]])
    at, near, far = (BOXES.loss(label + by, label, 0.0).item() for by in (0, 0.02, 0.2))
    assert at == 0 < near < far
    # Smooth L1 of 0.2 at beta 0.05: 0.2 - 0.025.
    assert far == pytest.approx(0.175, abs=1e-6)
