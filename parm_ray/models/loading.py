"""From an artefact directory to a predictor that is ready to be called."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np

from parm_ray.codes import Code, make_code
from parm_ray.core.errors import ConfigError
from parm_ray.models.manifest import InputSpec, Manifest, load_manifest
from parm_ray.models.predictor import Predictor


def load_predictor(
    directory: str | Path, device: str = "auto", threads: int = 1
) -> tuple[Manifest, Predictor]:
    """Read the manifest, build the predictor and run it once.

    device: "auto" (CUDA where there is one), "cpu" or "cuda". threads: CPU threads of one forward
    pass. Raises ConfigError naming the artefact and what is wrong with it.
    """
    manifest = load_manifest(directory)
    if manifest.model.loader == "torch":
        try:
            from parm_ray.models.torch_loader import load_torch
        except ImportError as error:
            raise ConfigError(
                f"{directory}: loader torch needs the extra parm_ray[torch] ({error})"
            ) from error
        predictor: Predictor = load_torch(manifest, directory, device, threads=threads)
    else:
        predictor = _from_factory(manifest, Path(directory), device)
    warm_up(manifest, predictor, directory)
    return manifest, predictor


def _from_factory(manifest: Manifest, directory: Path, device: str) -> Predictor:
    path = manifest.model.factory or ""
    module, _, name = path.partition(":")
    try:
        factory = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{directory}: model.factory {path!r} cannot be imported ({error})") from error
    predictor = factory(manifest, directory, device, **manifest.model.kwargs)
    if not callable(getattr(predictor, "predict", None)):
        raise ConfigError(f"{directory}: model.factory {path!r} did not return an object with predict()")
    return predictor


def warm_up(manifest: Manifest, predictor: Predictor, directory: str | Path) -> None:
    """Run one query through and check the output's shape, so that a wrong artefact never serves."""
    probe = probe_input(manifest)
    outputs = predictor.predict(probe)
    expected = (1, *expected_output(manifest))
    if outputs.shape != expected:
        raise ConfigError(f"{directory}: output shape: expected {expected}, the model gave {outputs.shape}")


def probe_input(manifest: Manifest) -> np.ndarray:
    """An input batch of one: a query of zeros, or for a parity model the encoding of such a query."""
    query = np.zeros((1, *manifest.input.shape), manifest.input.numpy_dtype)
    if manifest.code is None:
        return query
    code = code_of(manifest)
    return code.encode([query] * code.k)[manifest.code.row]


def expected_output(manifest: Manifest) -> tuple[int, ...]:
    """Per-query output shape of the artefact's network."""
    if manifest.code is None:
        return manifest.output.shape
    return code_of(manifest).parity_output_shape(manifest.output.shape)


def code_of(manifest: Manifest) -> Code:
    """The code a parity artefact was trained for. Raises ConfigError for a deployed model's."""
    if manifest.code is None:
        raise ConfigError(f"{manifest.name}: not a parity model (its manifest has no `code`)")
    spec = manifest.code
    return build_code(spec.encoder, spec.decoder, spec.k, spec.r, manifest.input, spec.weights)


def build_code(
    encoder: str, decoder: str, k: int, r: int, queries: InputSpec, weights: str | None = None
) -> Code:
    """The code for queries of this kind; concatenation has to know where their channels are.

    weights: the file of a code that is itself trained, `CodeSpec.weights`.
    """
    if encoder == "concat" and queries.layout is not None:
        return make_code(encoder, decoder, k, r, layout=queries.layout)
    if weights is not None:
        return make_code(encoder, decoder, k, r, weights=weights)
    return make_code(encoder, decoder, k, r)


def plan_code(encoder: str, decoder: str, k: int, r: int, queries: InputSpec, parity: str | Path) -> Code:
    """The code of a plan whose first parity artefact is `parity`, which holds a trained code's own file."""
    spec = load_manifest(parity).code if encoder == "learned" else None
    return build_code(encoder, decoder, k, r, queries, spec.weights if spec else None)


def fill_of(manifest: Manifest) -> np.ndarray:
    """The raw input that means "no query here": the data's mean, which normalises to nothing."""
    spec, pre = manifest.input, manifest.preprocessing
    values = np.asarray(pre.mean if pre.fill is None else pre.fill)
    if np.issubdtype(spec.numpy_dtype, np.integer):
        values = np.rint(values)
    values = values.astype(spec.numpy_dtype)
    # One value per channel must broadcast over the query; HWC does by itself.
    return values.reshape(-1, 1, 1) if spec.layout == "CHW" and values.size > 1 else values
