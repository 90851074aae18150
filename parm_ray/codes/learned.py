"""Learned encoder and decoder: two small nets, trained end to end through the frozen deployed model.

Kosaian, Rashmi, Venkataraman, "Learning a Code" (2018): the deployed model itself answers the parity
query P = E(X_1, ..., X_k), and D makes the lost outputs of the others and F(P). Both nets are MLPs here
and run in numpy, from one .npz file that `train.learned` writes; nothing in it is ever unpickled.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.codes.answers import check_answers, check_wanted
from parm_ray.codes.base import Array, Batch
from parm_ray.codes.shape import check_count, check_slots, padded
from parm_ray.core import InvalidInput

Floats = NDArray[np.float32]
Layers = tuple[tuple[Floats, Floats], ...]
"""(weight `[in, out]`, bias `[out]`) of each linear layer; ReLU between them."""

FORMAT = 1
MAX_K = 64


@dataclass(frozen=True)
class CoderFile:
    """What the .npz holds. d and o: values of a query and of an output.

    mean, std: raw units, broadcast to `query_shape`; the encoder works on (x - mean) / std.
    encoder: from k d values to d. decoder: from k o outputs (0 where missing), the parity's o and k flags
    (1 = that output is there) to k o reconstructions.
    """

    k: int
    query_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    mean: Floats
    std: Floats
    encoder: Layers
    decoder: Layers

    def save(self, path: str | Path) -> None:
        """Write the file."""
        arrays: dict[str, Any] = {"format": np.array(FORMAT), "k": np.array(self.k)}
        arrays |= {"mean": self.mean, "std": self.std}
        arrays |= {n: np.array(getattr(self, n), np.int64) for n in ("query_shape", "output_shape")}
        for name in ("encoder", "decoder"):
            for i, (weight, bias) in enumerate(getattr(self, name)):
                arrays |= {f"{name}.{i}.weight": weight, f"{name}.{i}.bias": bias}
        np.savez(path, **arrays)


def read_coder(path: str | Path) -> CoderFile:
    """Read and check an .npz of coder weights. Raises InvalidInput naming `weights`."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            kept = {name: arrays[name] for name in arrays.files}
        if int(kept["format"]) != FORMAT:
            _refuse(path, f"format {kept['format']}")
        file = CoderFile(
            k=int(kept["k"]),
            query_shape=tuple(kept["query_shape"].tolist()),
            output_shape=tuple(kept["output_shape"].tolist()),
            mean=kept["mean"].astype(np.float32),
            std=kept["std"].astype(np.float32),
            encoder=_layers(kept, "encoder"),
            decoder=_layers(kept, "decoder"),
        )
    except KeyError as error:
        _refuse(path, f"no array {error}")
    except (OSError, EOFError, TypeError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        _refuse(path, f"{type(error).__name__}: {error}")
    queries, outputs = prod(file.query_shape), prod(file.output_shape)
    for name, before, after in (
        ("encoder", file.k * queries, queries),
        ("decoder", (file.k + 1) * outputs + file.k, file.k * outputs),
    ):
        layers: Layers = getattr(file, name)
        widths = [before, *(weight.shape[1] for weight, _ in layers)]
        shapes = [shape for weight, bias in layers for shape in (weight.shape, bias.shape)]
        wanted = [shape for i, width in enumerate(widths[1:]) for shape in ((widths[i], width), (width,))]
        if not layers or shapes != wanted or widths[-1] != after:
            _refuse(path, f"{name}: layers {shapes} that do not lead from {before} values to {after}")
        if not all(np.isfinite(array).all() for layer in layers for array in layer):
            _refuse(path, f"{name}: nan or inf")
    return file


def _refuse(path: str | Path, got: str) -> NoReturn:
    raise InvalidInput("weights", "an .npz of a learned code, as train.learned writes it", f"{path}, {got}")


def _layers(arrays: Mapping[str, Array], name: str) -> Layers:
    count = sum(key.startswith(f"{name}.") for key in arrays) // 2
    parts = [[arrays[f"{name}.{i}.{part}"] for part in ("weight", "bias")] for i in range(count)]
    if any(weight.ndim != 2 for weight, _ in parts):
        raise ValueError(f"{name}: a weight that is no matrix")
    return tuple((weight.astype(np.float32), bias.astype(np.float32)) for weight, bias in parts)


def _run(layers: Layers, values: Floats) -> Floats:
    """Map `[b, in]` to `[b, out]`."""
    for weight, bias in layers[:-1]:
        values = values @ weight
        values += bias
        np.maximum(values, 0, out=values)
    weight, bias = layers[-1]
    return values @ weight + bias


class LearnedEncoder:
    """One parity, float32 of the queries' shape, in their own raw units.

    k: 1..64, and the file's; r: 1; weights: path of the .npz.
    Raises InvalidInput naming `k`, `r` or `weights`.
    """

    name = "learned"
    r = 1

    def __init__(self, k: int, r: int = 1, weights: str | Path | None = None) -> None:
        self.k = check_count("k", k, 1, MAX_K)
        if r != 1:
            raise InvalidInput("r", "1 for learned", r)
        if weights is None:
            raise InvalidInput("weights", "the path of an .npz file (learned codes need one)", "none")
        self.file = read_coder(weights)
        if self.file.k != self.k:
            raise InvalidInput("k", f"{self.file.k}, which {weights} was trained for", k)

    def encode(self, slots: Sequence[Batch], fill: ArrayLike | None = None) -> list[Array]:
        """See `Encoder.encode`. The queries' shape must be the file's."""
        longest = check_slots(slots, self.k)
        file, rows = self.file, len(longest)
        if longest.shape[1:] != file.query_shape:
            raise InvalidInput("slots", f"queries of shape {file.query_shape}", f"{longest.shape[1:]}")
        queries = np.empty((rows, self.k, *file.query_shape), np.float32)
        for slot, batch in enumerate(slots):
            queries[:, slot] = padded(batch, rows, fill, longest)
        queries -= file.mean
        queries /= file.std
        parity = _run(file.encoder, queries.reshape(rows, -1)).reshape(rows, *file.query_shape)
        parity *= file.std
        parity += file.mean
        return [parity]

    def normalisation(self, row: int, mean: ArrayLike, std: ArrayLike) -> tuple[Array, Array]:
        """Those of the queries: the deployed model takes a parity for one of them."""
        check_count("row", row, 0, 0)
        return np.asarray(mean, np.float32), np.asarray(std, np.float32)


class LearnedDecoder:
    """Reads a missing output off the net, given the parity's answer and those of all other slots.

    The contract's None becomes zeros and a flag here, at the net's door. A slot or row that stayed empty
    looks the same to the net, which is trained on groups with such.
    """

    name = "learned"
    r = 1

    def __init__(self, file: CoderFile) -> None:
        self.k, self._file = file.k, file

    def recoverable(
        self, present: frozenset[int], answered: frozenset[int], parities: frozenset[int]
    ) -> frozenset[int]:
        """The missing slot, if it is the only one and the parity has arrived."""
        missing = present - answered
        return missing if len(missing) <= len(parities) else frozenset()

    def decode(
        self,
        outputs: Sequence[Batch],
        parities: Sequence[Batch],
        lengths: Sequence[int],
        wanted: Sequence[int],
    ) -> Mapping[int, Array]:
        """See `Decoder.decode`. Output shapes must be the file's; decoded outputs have the parity's dtype."""
        check_answers(outputs, parities, lengths, self.k, self.r)
        missing = [i for i in range(self.k) if lengths[i] and outputs[i] is None]
        parity = parities[0]
        check_wanted(wanted, missing if parity is not None and len(missing) <= 1 else [])
        if parity is None or not len(wanted):
            return {}
        shape, size = self._file.output_shape, prod(self._file.output_shape)
        if parity.dtype.kind != "f":
            raise InvalidInput("parities[0]", "floating point answers", str(parity.dtype))
        for name, answer in (*((f"outputs[{i}]", o) for i, o in enumerate(outputs)), ("parities[0]", parity)):
            if answer is not None and answer.shape[1:] != shape:
                raise InvalidInput(name, f"answers of shape {shape}", f"{answer.shape[1:]}")
        rows = max(lengths)
        seen = np.zeros((rows, (self.k + 1) * size + self.k), np.float32)
        for slot, output in enumerate(outputs):
            if output is not None:
                seen[: len(output), slot * size : (slot + 1) * size] = output.reshape(len(output), size)
                seen[: len(output), (self.k + 1) * size + slot] = 1
        seen[:, self.k * size : (self.k + 1) * size] = parity[:rows].reshape(rows, size)
        rebuilt = _run(self._file.decoder, seen).reshape(rows, self.k, *shape).astype(parity.dtype)
        return {slot: np.ascontiguousarray(rebuilt[: lengths[slot], slot]) for slot in wanted}

    def target(self, row: int, outputs: Sequence[Batch]) -> Array:
        """There is none: the deployed model answers the parity, and no model is trained to.

        Always raises InvalidInput naming `decoder`.
        """
        raise InvalidInput("decoder", "one that a parity model is trained for", self.name)

    def parity_output_shape(self, output_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Like the deployed model's."""
        return output_shape
