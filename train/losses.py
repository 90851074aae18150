"""What a parity model is asked to make small."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from train.groups import Groups
from train.recipe import ParityRecipe


def parity_loss(recipe: ParityRecipe, coefficients: Tensor | None, answers: Tensor, groups: Groups) -> Tensor:
    """Return the recipe's loss, a scalar.

    answers: `[g, *output]`, or `[g, k, *output]` of a slot decoder. coefficients: `[k]`, the linear
    decoder's (see `train.torch_codes.target_coefficients`), or None for a slot decoder.
    """
    if coefficients is not None:
        return functional.mse_loss(answers, linear_target(coefficients, groups.outputs))
    by_slot = answers.transpose(0, 1)
    if recipe.loss == "mse":
        return functional.mse_loss(by_slot[groups.present], groups.outputs[groups.present])
    return distillation(
        by_slot[groups.present],
        groups.outputs[groups.present],
        groups.labels[groups.present],
        hard_share=recipe.hard_share,
        temperature=recipe.temperature,
    )


def linear_target(coefficients: Tensor, outputs: Tensor) -> Tensor:
    """Return sum_i c_i F(X_i), `[g, *output]`, of outputs `[k, g, *output]`; an empty slot adds 0."""
    return torch.tensordot(coefficients, outputs, dims=1)


def distillation(
    logits: Tensor, teacher: Tensor, labels: Tensor, *, hard_share: float, temperature: float
) -> Tensor:
    """Return a x CE(logits, labels) + (1 - a) x T² x KL(softmax(teacher/T) || softmax(logits/T)).

    Hinton, Vinyals and Dean 2015. logits, teacher: `[n, classes]`; labels: int64 `[n]`;
    a = hard_share, T = temperature; the mean over n.
    """
    hard = functional.cross_entropy(logits, labels)
    soft = functional.kl_div(
        functional.log_softmax(logits / temperature, dim=-1),
        functional.log_softmax(teacher / temperature, dim=-1),
        reduction="batchmean",
        log_target=True,
    )
    return hard_share * hard + (1 - hard_share) * temperature**2 * soft
