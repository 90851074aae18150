import pytest
import torch
from torch import nn

from parm_ray.models.manifest import InputSpec, Preprocessing
from parm_ray.models.torch_loader import Normaliser
from train.augment import random_shift
from train.groups import ViewBank, draw_present, make_bank, sample_groups
from train.losses import distillation, linear_target


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_dropout_empties_some_slots_of_its_share_of_groups_and_never_all(k: int) -> None:
    present = draw_present(k, 20_000, 0.1, generator())
    kept = present.sum(0)
    assert kept.min() == 1
    assert (kept < k).float().mean() == pytest.approx(0.1, abs=0.01)
    assert torch.allclose(present.float().mean(1), present.float().mean().expand(k), atol=0.01)
    assert draw_present(k, 100, 0.0, generator()).all()


def test_groups_hold_the_fill_and_zero_where_a_slot_is_empty() -> None:
    images = torch.arange(1, 13, dtype=torch.uint8).view(12, 1, 1, 1)
    bank = ViewBank(images, images.flatten(1).float() * 10, torch.arange(12))
    groups = sample_groups(bank, 3, 50, dropout=0.5, fill=torch.tensor([99.0]), generator=generator())
    empty = ~groups.present
    assert empty.any()
    assert (groups.slots[empty] == 99).all()
    assert (groups.outputs[empty] == 0).all()
    held = groups.present
    assert torch.equal(groups.outputs[held].ravel(), groups.slots[held].ravel() * 10)
    assert torch.equal(groups.labels[held], groups.slots[held].ravel().long() - 1)


def test_bank_answers_the_very_views_it_holds() -> None:
    spec = InputSpec(name="x", shape=(5, 5, 1), dtype="uint8", layout="HWC")
    normaliser = Normaliser(spec, Preprocessing(), torch.device("cpu"))
    images = torch.randint(0, 200, (4, 5, 5, 1), dtype=torch.uint8, generator=generator())
    net = nn.Flatten()
    bank = make_bank(net, normaliser, images, torch.arange(4), views=3, shift=2, generator=generator())
    assert bank.images.shape == (12, 5, 5, 1)
    assert torch.equal(bank.images[:4], images)
    assert not torch.equal(bank.images[4:8], images)
    assert torch.equal(bank.outputs, bank.images.flatten(1).float())
    assert bank.labels.tolist() == [0, 1, 2, 3] * 3


def test_shift_moves_whole_images_by_at_most_its_pixels() -> None:
    images = torch.zeros(200, 7, 7, 2, dtype=torch.uint8)
    images[:, 3, 3] = torch.tensor([5, 6], dtype=torch.uint8)
    shifted = random_shift(images, 2, generator())
    assert torch.equal(shifted.sum((1, 2)), images.sum((1, 2)))
    where = shifted[..., 0].nonzero()[:, 1:]
    assert where.min() == 1
    assert where.max() == 5
    assert random_shift(images, 0, generator()) is images


def test_losses_by_hand() -> None:
    outputs = torch.tensor([[[1.0, 2.0]], [[10.0, 20.0]]])
    assert linear_target(torch.tensor([1.0, 2.0]), outputs).tolist() == [[21.0, 42.0]]
    same = torch.tensor([[0.0, 0.0]])
    options = {"labels": torch.tensor([1]), "temperature": 2.0}
    assert distillation(same, same, hard_share=0.0, **options).item() == pytest.approx(0)
    assert distillation(same, same, hard_share=1.0, **options).item() == pytest.approx(0.6931, abs=1e-4)
