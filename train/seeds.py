"""The same recipe with other random numbers."""

from __future__ import annotations

import inspect

from parm_ray.models.torch_loader import import_factory
from train.recipe import NetRecipe, Recipe


def seed_of(recipe: Recipe) -> int:
    """Return what a recipe's results are filed under: the deployed model's seed, else the split's."""
    return recipe.split_seed if recipe.deployed is None else recipe.deployed.seed


def seeded(recipe: Recipe, seed: int) -> Recipe:
    """Return the recipe with its split, deployed model and parity models drawn from `seed`.

    The first weights of a net, too, where its factory takes a `seed`. Seed 0 keeps the recipe's folder,
    others get `<folder>_seed<seed>`. Raises ConfigError for a factory that cannot be imported.
    """
    folder = recipe.folder or recipe.dataset
    deployed = recipe.deployed and recipe.deployed.model_copy(
        update={"seed": seed, "net": _first_weights(recipe.deployed.net, seed)}
    )
    parities = tuple(
        parity.model_copy(update={"seed": seed, "net": parity.net and _first_weights(parity.net, seed)})
        for parity in recipe.parities
    )
    changed = {"split_seed": seed, "deployed": deployed, "parities": parities}
    return recipe.model_copy(update=changed | ({"folder": f"{folder}_seed{seed}"} if seed else {}))


def _first_weights(net: NetRecipe, seed: int) -> NetRecipe:
    if "seed" not in inspect.signature(import_factory(net.factory)).parameters:
        return net
    kwargs = {name: value for name, value in net.kwargs.items() if name != "seed"}
    return net.model_copy(update={"kwargs": {**kwargs, "seed": seed} if seed else kwargs})
