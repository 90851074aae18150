"""A recipe: everything that decides what a training run produces, typed, in one YAML file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from parm_ray.core.errors import ConfigError
from parm_ray.models.manifest import ModelSource
from train.data import Dataset, dataset_names, load_dataset, task_of

FORMAT = 2
"""Part of every hash. Raise it when the training code changes what a recipe produces."""

Outputs = Literal["logits", "probabilities"]
"""What the served models answer; a code adds and subtracts just that."""

PROBABILITIES = "parm_ray.models.torch_probabilities:probabilities"

BUILT_IN = Path(__file__).parent / "recipes"

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NetRecipe(_Strict):
    """A net's factory and its kwargs, less `num_outputs` and `slots`, which the data and code give."""

    factory: str
    kwargs: dict[str, object] = Field(default_factory=dict)

    def source(self, num_outputs: int, slots: int | None, weights: str | None = None) -> ModelSource:
        """Return the manifest entry that builds this net; `slots` = k heads, None = one."""
        kwargs = {**self.kwargs, "num_outputs": num_outputs}
        if slots is not None:
            kwargs["slots"] = slots
        return ModelSource(factory=self.factory, kwargs=kwargs, weights=weights)

    def ending_in(self, outputs: Outputs, scale: float = 1.0) -> NetRecipe:
        """Return the net that answers so; scale: the sum of the probabilities, a linear decoder's."""
        if outputs == "logits":
            return self
        kwargs: dict[str, object] = {"factory": self.factory, "kwargs": self.kwargs}
        if scale != 1:
            kwargs["scale"] = scale
        return NetRecipe(factory=PROBABILITIES, kwargs=kwargs)


class OptimiserRecipe(_Strict):
    """The optimiser and its schedule.

    adamw decouples the weight decay, adam adds it to the gradient. one_cycle: the rate rises to
    `learning_rate` and falls to nothing within the run; constant: it stays (the ParM repository's).
    seed: of all that is drawn in training.
    """

    optimiser: Literal["adamw", "adam"] = "adamw"
    schedule: Literal["one_cycle", "constant"] = "one_cycle"
    learning_rate: Positive = 0.01
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    seed: int = 0


class DeployedRecipe(OptimiserRecipe):
    """How the deployed model is trained, by cross-entropy.

    batch: images a step. shift: images move by up to that many pixels either way; flip: half of
    them are mirrored.
    """

    net: NetRecipe
    epochs: Count
    batch: Count = 128
    label_smoothing: Share = 0.0
    shift: Annotated[int, Field(ge=0)] = 0
    flip: bool = False


class DistilledRecipe(OptimiserRecipe):
    """How anything is trained that learns from the deployed model's answers.

    views: differently shifted copies of every training image, each answered once by the deployed model;
    shift, flip as in DeployedRecipe. hard_share, temperature: see `train.losses.distillation`.
    """

    hard_share: Share = 0.5
    temperature: Positive = 2.0
    views: Count = 8
    shift: Annotated[int, Field(ge=0)] = 0
    flip: bool = False


class ParityRecipe(DistilledRecipe):
    """How the parity models of one code are trained; one model for each of the r rows.

    net: None = the deployed model's, with k heads for the slot decoder. steps: optimiser steps of
    `groups` fresh random groups each. targets: what each slot stands for, T_i: the deployed model's
    answer to it ("outputs"), or its label alone ("labels"). loss, on the recipe's `outputs`:
    "mse": from sum_i c_i T_i for a linear decoder, from each T_i for the slot decoder.
    "cross_entropy": from the distribution sum_i c_i T_i / sum_i c_i for a linear decoder that works
    on probabilities (with targets "labels" the paper's, for its concatenation code), from each T_i
    for the slot decoder.
    "distillation": slot decoder; per slot hard_share x cross-entropy with the label + (1 -
    hard_share) x temperature² x KL from the deployed model's softened answer (Hinton 2015).
    slot_dropout: share of groups with 1 to k-1 empty slots. init_from_deployed: start from the
    deployed model's tensors where name and shape agree. init_from: start from another parity artefact of
    the same folder instead, by its name, which must be there by then; its training is not in this
    one's minutes. trunk: "shared" keeps the deployed model's
    convolutions and trains adapters beside the last `adapted` share of them (see `train.shared`).
    variant: tells models of the same code apart, in the name of the artefact.
    """

    encoder: str
    decoder: str
    k: Annotated[int, Field(ge=2)]
    r: Count = 1
    variant: Annotated[str, Field(pattern=r"^[a-z0-9]*$")] = ""
    net: NetRecipe | None = None
    steps: Count
    groups: Count = 64
    loss: Literal["mse", "distillation", "cross_entropy"]
    targets: Literal["outputs", "labels"] = "outputs"
    slot_dropout: Share = 0.1
    init_from_deployed: bool = True
    init_from: str | None = None
    trunk: Literal["trained", "shared"] = "trained"
    adapted: Annotated[float, Field(gt=0, le=1)] = 0.5

    @model_validator(mode="after")
    def _loss_fits_decoder(self) -> ParityRecipe:
        if self.loss == "distillation" and self.decoder != "slot":
            raise ValueError(f"loss distillation needs the slot decoder, not {self.decoder!r}: use mse")
        if self.loss == "distillation" and self.targets == "labels":
            raise ValueError("targets: labels with loss distillation: use loss cross_entropy")
        return self

    @model_validator(mode="after")
    def _one_start(self) -> ParityRecipe:
        if self.init_from is not None and (not self.init_from_deployed or self.trunk == "shared"):
            raise ValueError("init_from: not together with init_from_deployed: false or trunk: shared")
        return self

    @model_validator(mode="after")
    def _shared_trunk_is_the_deployed_one(self) -> ParityRecipe:
        if self.trunk == "shared" and not self.init_from_deployed:
            raise ValueError("trunk: shared needs init_from_deployed: true")
        return self

    @property
    def needs_labels(self) -> bool:
        """Whether the training queries must have labels."""
        return self.targets == "labels" or (self.loss == "distillation" and self.hard_share > 0)

    @property
    def slots(self) -> int | None:
        """Heads of the parity model: k for the slot decoder, else None."""
        return self.k if self.decoder == "slot" else None

    def directory(self, row: int) -> str:
        """Name of row `row`'s artefact: `<encoder>_<decoder>_k<k>[_r<r>_row<row>][_<variant>]`."""
        name = f"{self.encoder}_{self.decoder}_k{self.k}"
        name = name if self.r == 1 else f"{name}_r{self.r}_row{row}"
        return f"{name}_{self.variant}" if self.variant else name


class Recipe(_Strict):
    """One run: a data set, its split, a deployed model and the codes it gets parity models for.

    folder: where artefacts go under the output directory, None = the data set's name. test_size:
    see `load_dataset`. validation_size: training queries that are not trained on; every
    `validate_every` steps they give the log a point of its curve. evaluation_rounds: how many times
    the test set is shuffled into groups to measure A_d. threads: CPU threads, None = torch's own
    choice; small nets are faster with 1, and far faster where other processes want the cores.
    deployed: None = an artefact that is there already, given to `Run`. outputs: what all models of
    the recipe answer; probabilities make a parity model of a linear decoder end in (sum_i c_i) x
    softmax, so that it is probabilities that are subtracted.
    """

    name: str
    dataset: str
    folder: str | None = None
    test_size: Count | None = None
    train_size: Count | None = None
    validation_size: Annotated[int, Field(ge=0)] = 0
    validate_every: Annotated[int, Field(ge=0)] = 0
    split_seed: int = 0
    deployed: DeployedRecipe | None = None
    outputs: Outputs = "logits"
    parities: tuple[ParityRecipe, ...] = ()
    evaluation_rounds: Count = 10
    threads: Count | None = None

    @field_validator("dataset")
    @classmethod
    def _dataset_known(cls, name: str) -> str:
        if name not in dataset_names():
            raise ValueError(f"expected one of {', '.join(dataset_names())}, got {name!r}")
        return name

    @model_validator(mode="after")
    def _codes_differ(self) -> Recipe:
        names = [parity.directory(0) for parity in self.parities]
        if len(set(names)) < len(names):
            raise ValueError(f"two parities would share a directory: {names}")
        return self

    @model_validator(mode="after")
    def _losses_fit_outputs(self) -> Recipe:
        for at, parity in enumerate(self.parities):
            if self.outputs == "logits" and parity.loss == "cross_entropy" and parity.decoder != "slot":
                raise ValueError(
                    f"parities.{at}.loss: cross_entropy with decoder {parity.decoder!r} learns a "
                    "distribution, and what is subtracted from it has to be one: outputs: probabilities"
                )
        return self

    @model_validator(mode="after")
    def _labels_bear_it(self) -> Recipe:
        keys = {"shift", "flip", "label_smoothing", "loss"}
        models = {"deployed": self.deployed, **{f"parities.{at}": p for at, p in enumerate(self.parities)}}
        for at, model in models.items():
            asked = model.model_dump(include=keys) if model else {}
            try:
                task_of(self.dataset).check_training(**asked, outputs=self.outputs)
            except ConfigError as error:
                raise ValueError(f"{at}: {error}") from None
        return self

    def load_dataset(self, root: Path | None) -> Dataset:
        """Load the recipe's data set and split it; root and errors: see `train.data.load_dataset`."""
        return load_dataset(
            self.dataset, self.test_size, self.split_seed, root, self.train_size, self.validation_size
        )

    def deployed_hash(self) -> str:
        """Hash of all that decides the deployed model."""
        data = (self.dataset, self.test_size, self.train_size, self.validation_size, self.split_seed)
        return _hash(*data, *self._answers, self.deployed and _settings(self.deployed))

    @property
    def _answers(self) -> tuple[str, ...]:
        """Nothing for the default, so that older hashes stay."""
        return () if self.outputs == "logits" else (self.outputs,)

    def parity_hash(self, parity: ParityRecipe) -> str:
        """Hash of all that decides the parity models of one code and their metrics."""
        return _hash(self.deployed_hash(), _settings(parity), self.evaluation_rounds)


def load_recipe(name: str) -> Recipe:
    """Read a built-in recipe by its name, or a YAML file by its path.

    Raises ConfigError naming the file and the key that is wrong.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else BUILT_IN / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(found.stem for found in BUILT_IN.glob("*.yaml")))
        raise ConfigError(f"recipe: no {name!r}; give a path to a YAML file or one of: {known}")
    try:
        return Recipe.model_validate(yaml.safe_load(path.read_text()))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML ({error})") from None
    except ValidationError as error:
        lines = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ConfigError(f"{path}: {lines}") from None


def _settings(recipe: BaseModel) -> dict[str, object]:
    """Return what a recipe says; a default says nothing, so that a new field keeps old hashes."""
    return recipe.model_dump(mode="json", exclude_defaults=True)


def _hash(*parts: object) -> str:
    text = json.dumps([FORMAT, *parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
