"""What a parity model is asked to make small."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from parm_ray.core.errors import ConfigError
from train.groups import Groups, ViewBank
from train.recipe import Outputs, ParityRecipe


def check_loss(recipe: ParityRecipe, coefficients: Tensor | None, outputs: Outputs, bank: ViewBank) -> None:
    """Raise ConfigError if `parity_loss` cannot be had of such coefficients and queries."""
    labels = bank.labels
    classes = not labels.is_floating_point()
    if recipe.needs_labels and classes and bool((labels < 0).any()):
        raise ConfigError(
            f"{recipe.directory(0)}: the queries have no labels; expected targets: outputs and loss mse, "
            "cross_entropy or distillation with hard_share: 0"
        )
    if not classes and (recipe.loss != "mse" or outputs == "probabilities"):
        raise ConfigError(
            f"{recipe.directory(0)}: labels are no classes; expected loss mse and outputs: logits"
        )
    sums = bank.outputs.sum(dim=-1)
    if outputs == "probabilities" and not torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        raise ConfigError("outputs: probabilities, but the deployed model's answers do not sum to 1")
    if coefficients is None:
        return
    if recipe.loss == "mse" and recipe.targets == "labels" and classes and outputs == "logits":
        raise ConfigError(
            f"{recipe.directory(0)}: targets: labels and decoder {recipe.decoder!r} need "
            "outputs: probabilities; logits cannot be subtracted from labels"
        )
    if outputs == "probabilities" and bool((coefficients <= 0).any()):
        raise ConfigError(
            f"{recipe.directory(0)}: outputs: probabilities need coefficients above 0, "
            f"got {coefficients.tolist()}"
        )


def parity_loss(
    recipe: ParityRecipe,
    coefficients: Tensor | None,
    answers: Tensor,
    groups: Groups,
    outputs: Outputs = "logits",
) -> Tensor:
    """Return the recipe's loss, a scalar.

    answers: what the net says in train mode, logits: `[g, *output]`, or `[g, k, *output]` of a slot
    decoder. coefficients: `[k]`, the linear decoder's (see `train.torch_codes.target_coefficients`),
    or None for a slot decoder. outputs: what the groups hold, and what the net answers in eval mode.
    """
    targets = groups.outputs
    if recipe.targets == "labels":
        targets = label_targets(groups.labels, groups.outputs)
    if coefficients is not None:
        if outputs == "logits":
            return functional.mse_loss(answers, linear_target(coefficients, targets))
        wanted = mixture(coefficients, targets, groups.present)
        if recipe.loss == "mse":
            total = coefficients.sum()
            return functional.mse_loss(total * answers.softmax(dim=-1), total * wanted)
        return functional.cross_entropy(answers, wanted)
    present = groups.present
    said, wanted = answers.transpose(0, 1)[present], targets[present]
    if recipe.loss == "mse":
        return functional.mse_loss(said if outputs == "logits" else said.softmax(dim=-1), wanted)
    if recipe.loss == "cross_entropy":
        logits = outputs == "logits" and recipe.targets == "outputs"
        return functional.cross_entropy(said, wanted.softmax(dim=-1) if logits else wanted)
    return distillation(
        said,
        wanted if outputs == "logits" else log_probabilities(wanted),
        groups.labels[present],
        hard_share=recipe.hard_share,
        temperature=recipe.temperature,
    )


def linear_target(coefficients: Tensor, outputs: Tensor) -> Tensor:
    """Return sum_i c_i F(X_i), `[g, *output]`, of outputs `[k, g, *output]`; an empty slot adds 0."""
    return torch.tensordot(coefficients, outputs, dims=1)


def mixture(coefficients: Tensor, distributions: Tensor, present: Tensor) -> Tensor:
    """Return sum_i c_i p_i / sum_i c_i, distributions `[g, classes]`, of p `[k, g, classes]`.

    The normalised sum of labels of the ParM paper's concatenation code. What an empty slot (False in
    `present`, `[k, g]`) would have is spread evenly over the classes: the answers still sum to
    sum_i c_i, and what is decoded from them has every class raised by the same.
    """
    even = torch.full_like(distributions, 1 / distributions.shape[-1])
    filled = torch.where(present[..., None], distributions, even)
    return linear_target(coefficients / coefficients.sum(), filled)


def label_targets(labels: Tensor, outputs: Tensor) -> Tensor:
    """Return labels as what a faultless model would answer, in the shape and dtype of `outputs`.

    Classes, int64 `[k, g]`, become the distributions that name them; other labels are answers already.
    """
    if labels.is_floating_point():
        return labels.to(outputs.dtype)
    return functional.one_hot(labels, outputs.shape[-1]).to(outputs.dtype)


def log_probabilities(distributions: Tensor) -> Tensor:
    """Return logits, normalised ones, of distributions; one of 0 counts as the smallest float."""
    return distributions.clamp(min=torch.finfo(distributions.dtype).tiny).log()


def distillation(
    logits: Tensor, teacher: Tensor, labels: Tensor, *, hard_share: float, temperature: float
) -> Tensor:
    """Return a x CE(logits, labels) + (1 - a) x T² x KL(softmax(teacher/T) || softmax(logits/T)).

    Hinton, Vinyals and Dean 2015. logits, teacher: `[n, classes]`; labels: int64 `[n]`, not looked at
    if a = 0; a = hard_share, T = temperature; the mean over n.
    """
    soft = functional.kl_div(
        functional.log_softmax(logits / temperature, dim=-1),
        functional.log_softmax(teacher / temperature, dim=-1),
        reduction="batchmean",
        log_target=True,
    )
    if hard_share == 0:
        return temperature**2 * soft
    hard = functional.cross_entropy(logits, labels)
    return hard_share * hard + (1 - hard_share) * temperature**2 * soft
