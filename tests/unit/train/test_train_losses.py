import math

import pytest
import torch

from parm_ray.core.errors import ConfigError
from train.groups import Groups, ViewBank
from train.losses import (
    check_loss,
    distillation,
    label_targets,
    linear_target,
    log_probabilities,
    mixture,
    parity_loss,
)
from train.recipe import ParityRecipe

ONES = torch.ones(2)


def recipe(**changed: object) -> ParityRecipe:
    given = {"encoder": "concat", "decoder": "subtract", "k": 2, "steps": 1, "loss": "mse"}
    return ParityRecipe.model_validate(given | changed)


def groups(outputs: torch.Tensor, labels: list[list[int]], present: list[list[bool]] | None = None) -> Groups:
    kept = torch.ones(outputs.shape[:2], dtype=torch.bool) if present is None else torch.tensor(present)
    return Groups(torch.zeros(*outputs.shape[:2], 1, 1, 1), outputs, torch.tensor(labels), kept)


def test_the_normalised_label_sum_by_hand() -> None:
    """k = 2, three classes, labels 0 and 2: the target is (1/2, 0, 1/2)."""
    seen = groups(torch.full((2, 1, 3), 1 / 3), [[0], [2]])
    asked = recipe(loss="cross_entropy", targets="labels")
    at_target = torch.tensor([[0.5, 1e-9, 0.5]]).log()
    loss = parity_loss(asked, ONES, at_target, seen, "probabilities")
    assert loss.item() == pytest.approx(math.log(2), abs=1e-5)
    even = parity_loss(asked, ONES, torch.zeros(1, 3), seen, "probabilities")
    assert even.item() == pytest.approx(math.log(3), abs=1e-5)
    weighted = mixture(torch.tensor([1.0, 3.0]), label_targets(seen.labels, seen.outputs), seen.present)
    assert torch.allclose(weighted, torch.tensor([[0.25, 0.0, 0.75]]))


def test_targets_say_whom_the_parity_model_follows() -> None:
    """The deployed model takes both images for class 1; their labels are 0 and 2."""
    seen = groups(torch.tensor([[[0.0, 1.0, 0.0]], [[0.0, 1.0, 0.0]]]), [[0], [2]])
    said = torch.tensor([[0.0, 9.0, 0.0]])
    for loss in ("cross_entropy", "mse"):
        of_outputs = parity_loss(recipe(loss=loss), ONES, said, seen, "probabilities")
        of_labels = parity_loss(recipe(loss=loss, targets="labels"), ONES, said, seen, "probabilities")
        assert of_outputs < 0.01 < 0.5 < of_labels


def test_mse_in_probabilities_is_of_what_is_served() -> None:
    seen = groups(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]), [[0], [1]])
    loss = parity_loss(recipe(), ONES, torch.tensor([[math.log(3), 0.0]]), seen, "probabilities")
    assert loss.item() == pytest.approx(0.25)  # 2 x (3/4, 1/4) beside (1, 1)


def test_an_empty_slot_raises_every_class_by_the_same() -> None:
    """So a linear decoder that counts it as 0 still finds the other slot's largest class."""
    one = torch.tensor([0.7, 0.2, 0.1])
    outputs = torch.stack([one, torch.zeros(3)])[:, None]
    mixed = mixture(ONES, outputs, torch.tensor([[True], [False]]))
    assert mixed.sum().item() == pytest.approx(1)
    assert torch.allclose(2 * mixed[0] - one, torch.full((3,), 1 / 3))


@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
@pytest.mark.parametrize("loss", ["mse", "cross_entropy", "distillation"])
def test_slot_losses_look_at_present_slots_and_are_least_at_the_target(loss: str, outputs: str) -> None:
    logits = torch.tensor([[[3.0, 0.0, -1.0]], [[0.0, 2.0, 0.0]]])
    held = logits if outputs == "logits" else logits.softmax(-1)
    seen = groups(held, [[0], [1]], [[True], [False]])
    asked = recipe(decoder="slot", loss=loss, hard_share=0.0)
    answers = logits.transpose(0, 1)
    least = parity_loss(asked, None, answers, seen, outputs)
    empty_moved = answers + torch.tensor([[[0.0] * 3, [5.0, -5.0, 0.0]]])
    present_moved = answers + torch.tensor([[[-2.0, 2.0, 0.0], [0.0] * 3]])
    assert parity_loss(asked, None, empty_moved, seen, outputs) == least
    assert parity_loss(asked, None, present_moved, seen, outputs) > least + 0.05
    if loss != "cross_entropy":  # its least is the target's own entropy
        assert least.item() == pytest.approx(0, abs=1e-6)


def test_cross_entropy_with_outputs_has_the_gradient_of_the_divergence() -> None:
    """Why there is no loss "kl": at temperature 1 it is this one, at another distillation's."""
    generator = torch.Generator().manual_seed(0)
    teacher = torch.randn(5, 4, generator=generator)
    answers = torch.randn(5, 4, generator=generator, requires_grad=True)
    asked = recipe(decoder="slot", loss="cross_entropy")
    seen = groups(teacher.reshape(1, 5, 4), [[0] * 5])
    (one,) = torch.autograd.grad(parity_loss(asked, None, answers[:, None], seen), answers)
    labels = torch.full((5,), -1)
    divergence = distillation(answers, teacher, labels, hard_share=0, temperature=1)
    (other,) = torch.autograd.grad(divergence, answers)
    assert torch.allclose(one, other, atol=1e-7)


def test_probabilities_keep_what_distillation_needs_of_logits() -> None:
    logits = torch.tensor([[4.0, 1.0, -80.0, -200.0]])
    for temperature in (1.0, 4.0):
        kept = (log_probabilities(logits.softmax(-1)) / temperature).softmax(-1)
        assert torch.allclose(kept, (logits / temperature).softmax(-1), atol=1e-6)


def test_labels_that_are_answers_are_their_own_target() -> None:
    boxes = torch.rand(2, 3, 4, dtype=torch.float64)
    assert torch.equal(label_targets(boxes, torch.zeros(2, 3, 4)), boxes.float())
    assert torch.equal(linear_target(ONES, boxes.float()), boxes.float().sum(0))


@pytest.mark.parametrize(
    ("changed", "outputs", "held", "labels", "message"),
    [
        ({"targets": "labels"}, "logits", [[2.0, 1.0]], [0], "outputs: probabilities"),
        ({"targets": "labels"}, "probabilities", [[0.5, 0.5]], [-1], "no labels"),
        ({"decoder": "slot", "loss": "distillation"}, "logits", [[2.0, 1.0]], [-1], "hard_share: 0"),
        ({}, "probabilities", [[2.0, 1.0]], [0], "do not sum to 1"),
        ({"decoder": "slot", "loss": "cross_entropy"}, "logits", [[2.0, 1.0]], [0.5], "expected loss mse"),
    ],
)
def test_losses_that_cannot_be_had_are_refused(
    changed: dict, outputs: str, held: list, labels: list, message: str
) -> None:
    bank = ViewBank(torch.zeros(1, 1, 1, 1), torch.tensor(held), torch.tensor(labels))
    asked = recipe(**changed)
    with pytest.raises(ConfigError, match=message):
        check_loss(asked, None if asked.decoder == "slot" else ONES, outputs, bank)


def test_negative_coefficients_are_no_distribution() -> None:
    bank = ViewBank(torch.zeros(1, 1, 1, 1), torch.tensor([[0.5, 0.5]]), torch.tensor([0]))
    with pytest.raises(ConfigError, match="above 0"):
        check_loss(recipe(), torch.tensor([1.0, -1.0]), "probabilities", bank)
    check_loss(recipe(), torch.tensor([1.0, -1.0]), "logits", bank)
