"""From a manifest with loader "torch" to a predictor: net, safetensors weights, normalisation, device.

Weights are read from safetensors only. A pickled checkpoint can run any code when it is opened, so
the other formats are refused by name and never opened.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from parm_ray.core.errors import ConfigError, InvalidInput
from parm_ray.models.loading import code_of, expected_output, probe_input
from parm_ray.models.manifest import InputSpec, Manifest, ModelSource, Preprocessing
from parm_ray.models.torch_memory import check_gpu_memory

_SUFFIX = ".safetensors"
_SHOWN = 4


def load_torch(
    manifest: Manifest, directory: str | Path, device: str = "auto", *, threads: int | None = None
) -> TorchPredictor:
    """Build the net that `manifest` names, fill in its weights and make it a predictor.

    device: "auto" (CUDA where there is one, else the CPU), "cpu", "cuda" or "cuda:N". threads: CPU
    threads of one forward pass, set for the whole process (replicas that share a box want 1);
    None leaves torch's own choice. Raises ConfigError saying what is wrong with the artefact.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    where = pick_device(device)
    net = build_net(manifest.model)
    if manifest.model.weights is not None:
        load_weights(net, _inside(Path(directory), manifest.model.weights))
    check_gpu_memory(net, where, manifest.name)
    return TorchPredictor(manifest, net, where)


class Normaliser:
    """Raw queries or parities to what a net takes: (x - mean) / std per channel, then CHW if asked."""

    def __init__(self, spec: InputSpec, preprocessing: Preprocessing, device: torch.device) -> None:
        self.device = device
        self._mean = _per_channel("mean", preprocessing.mean, spec).to(device)
        self._std = _per_channel("std", preprocessing.std, spec).to(device)
        self._to_chw = spec.layout == "HWC" and preprocessing.channels_first

    def __call__(self, batch: NDArray[np.generic]) -> Tensor:
        """Copy raw `[b, *shape]` to the device and normalise it there. See `normalise`."""
        if self.device.type == "cpu":
            raw = torch.from_numpy(np.array(batch, dtype=np.float32, order="C"))
        else:  # small integers cross the bus as they are
            raw = torch.from_numpy(np.array(batch, order="C")).to(self.device).to(torch.float32)
        return self.normalise(raw)

    def normalise(self, raw: Tensor) -> Tensor:
        """Map float `[b, *shape]` in raw units to the net's input, `[b, C, H, W]` for HWC images."""
        scaled = (raw - self._mean) / self._std
        return scaled.permute(0, 3, 1, 2) if self._to_chw else scaled


def normaliser_of(manifest: Manifest, device: torch.device) -> Normaliser:
    """Return the normaliser of an artefact; a parity model's is what its encoder makes of mean and std."""
    preprocessing = manifest.preprocessing
    if manifest.code is not None:
        encoder = code_of(manifest).encoder
        mean, std = encoder.normalisation(manifest.code.row, preprocessing.mean, preprocessing.std)
        changed = {"mean": tuple(map(float, np.ravel(mean))), "std": tuple(map(float, np.ravel(std)))}
        preprocessing = preprocessing.model_copy(update=changed)
    return Normaliser(manifest.input, preprocessing, device)


class TorchPredictor:
    """A net behind numpy arrays. `predict` is called from one thread at a time."""

    def __init__(self, manifest: Manifest, net: nn.Module, device: torch.device) -> None:
        self.manifest = manifest
        self.device = device
        self._net = net.eval().requires_grad_(False).to(device).to(memory_format=torch.channels_last)
        probe = probe_input(manifest)
        self._input_shape = probe.shape[1:]
        self._output_shape = expected_output(manifest)
        self._normalise = normaliser_of(manifest, device)

    def predict(self, batch: NDArray[np.generic]) -> NDArray[np.generic]:
        """Map raw `[b, *input shape]` of any real dtype to float32 `[b, *output shape]`.

        The input shape is the query's, or for a parity model the encoder's parity shape; the output
        of a parity model for a slot decoder is `[b, k, *output shape]`. Raises InvalidInput for a
        batch of another shape, ConfigError if the net's answer is not what the manifest says.
        """
        if batch.shape[1:] != self._input_shape or batch.ndim == 0:
            raise InvalidInput("batch", f"[b, {_dims(self._input_shape)}]", f"shape {batch.shape}")
        with torch.inference_mode():
            answers = self._net(self._normalise(batch))
            self._check(answers, len(batch))
            return answers.to("cpu", torch.float32).numpy()

    def warm_up(self, batch_size: int = 1, repeats: int = 3) -> None:
        """Answer `repeats` batches of `batch_size` zeros, so that the first query finds all set up.

        Raises ConfigError if the net does not fit the manifest's shapes.
        """
        batch = np.repeat(probe_input(self.manifest), batch_size, axis=0)
        for _ in range(repeats):
            try:
                self.predict(batch)
            except RuntimeError as error:
                raise ConfigError(
                    f"{self.manifest.name}: the net cannot take [b, {_dims(self._input_shape)}]: {error}"
                ) from error

    def _check(self, answers: object, rows: int) -> None:
        expected = (rows, *self._output_shape)
        if not isinstance(answers, Tensor):
            got = f"a {type(answers).__name__}"
        elif tuple(answers.shape) != expected:
            got = f"shape {tuple(answers.shape)}"
        else:
            return
        raise ConfigError(
            f"{self.manifest.name}: output: the manifest says shape {expected}, the net gave {got}"
        )


def pick_device(device: str) -> torch.device:
    """Return the torch device for "auto", "cpu", "cuda" or "cuda:N". Raises ConfigError otherwise."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        picked = torch.device(device)
    except RuntimeError:
        raise ConfigError(f"device: expected auto, cpu, cuda or cuda:N, got {device!r}") from None
    if picked.type == "cuda" and (picked.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"device: {device!r} asked for, torch sees {torch.cuda.device_count()} CUDA devices"
        )
    return picked


def build_net(source: ModelSource) -> nn.Module:
    """Call the factory, or torchvision's builder, with the manifest's kwargs. Weights are not loaded.

    A net without weights in its artefact is random; seeding makes it the same one in every replica.
    Raises ConfigError if the factory is missing, rejects its kwargs or returns no nn.Module.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            net = _torchvision(source) if source.torchvision is not None else _from_factory(source)
        except TypeError as error:
            raise ConfigError(
                f"model.kwargs: {source.factory or source.torchvision} refused them: {error}"
            ) from error
    if not isinstance(net, nn.Module):
        raise ConfigError(
            f"model.factory: {source.factory} returned a {type(net).__name__}, not an nn.Module"
        )
    return net


def _torchvision(source: ModelSource) -> object:
    try:
        from torchvision import models
    except ImportError as error:
        raise ConfigError(f"model.torchvision: needs the extra parm_ray[torch] ({error})") from error
    try:
        return models.get_model(source.torchvision, weights=None, **source.kwargs)
    except ValueError as error:
        raise ConfigError(f"model.torchvision: {error}") from None


def import_factory(path: str) -> Callable[..., object]:
    """Return what `package.module:callable` names. Raises ConfigError if it cannot be imported."""
    module, _, name = path.partition(":")
    try:
        factory: Callable[..., object] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"model.factory: {path!r} cannot be imported ({error})") from error
    return factory


def _from_factory(source: ModelSource) -> object:
    return import_factory(source.factory or "")(**source.kwargs)


def load_weights(net: nn.Module, path: Path) -> None:
    """Fill `net` from a safetensors state dict that names every tensor of it and no other.

    Raises ConfigError for another file format, an unreadable file, or names and shapes that differ.
    """
    if path.suffix != _SUFFIX:
        raise ConfigError(
            f"{path}: weights must be a {_SUFFIX} file; pickled checkpoints (.pt, .pth, .bin, .pkl) are "
            "never opened, they can run code. Convert with safetensors.torch.save_file(state_dict, path)"
        )
    try:
        state = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"{path}: cannot read the weights ({error})") from error
    problems = _differences(net.state_dict(), state)
    if problems:
        raise ConfigError(f"{path}: the weights do not fit the net: {'; '.join(problems)}")
    net.load_state_dict(state, strict=True)


def _differences(wanted: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> list[str]:
    missing = [name for name in wanted if name not in given]
    unknown = [name for name in given if name not in wanted]
    shapes = [
        f"{name} {tuple(given[name].shape)} instead of {tuple(wanted[name].shape)}"
        for name in wanted
        if name in given and given[name].shape != wanted[name].shape
    ]
    kinds = (("missing", missing), ("unknown", unknown), ("wrong shape", shapes))
    return [f"{len(names)} {kind} ({_some(names)})" for kind, names in kinds if names]


def _inside(directory: Path, weights: str) -> Path:
    relative = Path(weights)
    if relative.is_absolute() or ".." in relative.parts:
        raise ConfigError(f"model.weights: {weights!r} lies outside the artefact directory {directory}")
    return directory / relative


def _per_channel(name: str, values: tuple[float, ...], spec: InputSpec) -> Tensor:
    channels = spec.shape[0] if spec.layout == "CHW" else spec.shape[-1]
    if len(values) not in (1, channels):
        raise ConfigError(f"preprocessing.{name}: expected 1 or {channels} values, got {len(values)}")
    tensor = torch.tensor(values, dtype=torch.float32)
    return tensor[:, None, None] if spec.layout == "CHW" else tensor


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def _dims(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))
