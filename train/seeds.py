"""The same recipe with other random numbers."""

from __future__ import annotations

from train.recipe import Recipe


def seed_of(recipe: Recipe) -> int:
    """Return what a recipe's results are filed under: the deployed model's seed, else the split's."""
    return recipe.split_seed if recipe.deployed is None else recipe.deployed.seed


def seeded(recipe: Recipe, seed: int) -> Recipe:
    """Return the recipe with its split, deployed model and parity models drawn from `seed`.

    Seed 0 keeps the recipe's folder, others get `<folder>_seed<seed>`.
    """
    folder = recipe.folder or recipe.dataset
    deployed = recipe.deployed and recipe.deployed.model_copy(update={"seed": seed})
    parities = tuple(parity.model_copy(update={"seed": seed}) for parity in recipe.parities)
    changed = {"split_seed": seed, "deployed": deployed, "parities": parities}
    return recipe.model_copy(update=changed | ({"folder": f"{folder}_seed{seed}"} if seed else {}))
