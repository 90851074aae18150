"""Codes by name: an encoder and a decoder that belong together."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from parm_ray.codes.base import Array, Batch, Decoder, Encoder
from parm_ray.codes.berrut import BerrutDecoder, BerrutEncoder
from parm_ray.codes.concatenation import MAX_K as CONCAT_MAX_K
from parm_ray.codes.concatenation import ConcatEncoder
from parm_ray.codes.learned import LearnedDecoder, LearnedEncoder
from parm_ray.codes.linear import LinearEncoder, sum_encoder
from parm_ray.codes.linear_decoding import LinearDecoder
from parm_ray.codes.replication import CopyDecoder, ReplicateEncoder
from parm_ray.codes.shape import check_count
from parm_ray.codes.slot import SlotDecoder
from parm_ray.codes.weights import MAX_K, MAX_R, check_weights, default_weights
from parm_ray.core import InvalidInput


@dataclass(frozen=True, slots=True)
class Code:
    """An encoder and its decoder. The methods are theirs; see `codes.base` for shapes."""

    encoder: Encoder
    decoder: Decoder

    @property
    def k(self) -> int:
        """Slots of a group."""
        return self.encoder.k

    @property
    def r(self) -> int:
        """Parity queries per group."""
        return self.encoder.r

    @property
    def name(self) -> str:
        """For example `concat/slot`."""
        return f"{self.encoder.name}/{self.decoder.name}"

    def encode(self, slots: Sequence[Batch], fill: ArrayLike | None = None) -> list[Array]:
        """See `Encoder.encode`."""
        return self.encoder.encode(slots, fill)

    def normalisation(self, row: int, mean: ArrayLike, std: ArrayLike) -> tuple[Array, Array]:
        """See `Encoder.normalisation`."""
        return self.encoder.normalisation(row, mean, std)

    def recoverable(
        self, present: frozenset[int], answered: frozenset[int], parities: frozenset[int]
    ) -> frozenset[int]:
        """See `Decoder.recoverable`."""
        return self.decoder.recoverable(present, answered, parities)

    def decode(
        self,
        outputs: Sequence[Batch],
        parities: Sequence[Batch],
        lengths: Sequence[int],
        wanted: Sequence[int],
    ) -> Mapping[int, Array]:
        """See `Decoder.decode`."""
        return self.decoder.decode(outputs, parities, lengths, wanted)

    def target(self, row: int, outputs: Sequence[Batch]) -> Array:
        """See `Decoder.target`."""
        return self.decoder.target(row, outputs)

    def parity_output_shape(self, output_shape: tuple[int, ...]) -> tuple[int, ...]:
        """See `Decoder.parity_output_shape`."""
        return self.decoder.parity_output_shape(output_shape)


@dataclass(frozen=True, slots=True)
class _Entry:
    make: Callable[..., Any]
    what: str
    k: str = ""
    r: str = ""
    decoders: tuple[str, ...] = ()


_encoders: dict[str, _Entry] = {}
_decoders: dict[str, _Entry] = {}


def register_encoder(
    name: str, make: Callable[..., Encoder], what: str, k: str, r: str, decoders: tuple[str, ...]
) -> None:
    """Make an encoder known: `make(k, r, **options)`.

    what, k, r: what it is and its ranges in words; decoders: names of those that fit it.
    Raises InvalidInput naming `name` if it is taken.
    """
    _free(name, _encoders)
    _encoders[name] = _Entry(make, what, k, r, decoders)


def register_decoder(
    name: str, make: Callable[[Encoder], Decoder], what: str, encoders: tuple[str, ...] = ()
) -> None:
    """Make a decoder known: `make(encoder)`, beside those that `encoders` already have.

    Raises InvalidInput naming `name` if it is taken, `encoders` if one of them is unknown.
    """
    _free(name, _decoders)
    unknown = [e for e in encoders if e not in _encoders]
    if unknown:
        raise InvalidInput("encoders", f"names out of {', '.join(_encoders)}", unknown)
    _decoders[name] = _Entry(make, what)
    for encoder in encoders:
        entry = _encoders[encoder]
        _encoders[encoder] = replace(entry, decoders=(*entry.decoders, name))


def _free(name: str, entries: Mapping[str, _Entry]) -> None:
    if name in entries:
        raise InvalidInput("name", f"a name other than {', '.join(entries)}", repr(name))


def make_code(encoder: str, decoder: str, k: int, r: int = 1, **options: Any) -> Code:
    """Return the named code for k slots and r parities.

    options: `layout` ("HWC"/"CHW") for concat, `weights` `[r, k]` for weighted, and for learned, which
    needs it, `weights`, the path of its .npz file.
    Raises InvalidInput naming `encoder`, `decoder`, `k`, `r`, `options` or the option, with what is
    legal.
    """
    if encoder not in _encoders:
        raise InvalidInput("encoder", f"one of {', '.join(_encoders)}", repr(encoder))
    entry = _encoders[encoder]
    if decoder not in _decoders or decoder not in entry.decoders:
        raise InvalidInput("decoder", f"one of {', '.join(entry.decoders)} with {encoder}", repr(decoder))
    k, r = check_count("k", k, 1, MAX_K), check_count("r", r, 1, MAX_R)
    known = list(inspect.signature(entry.make).parameters)[2:]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise InvalidInput("options", f"{' or '.join(known) or 'none'} with {encoder}", ", ".join(unknown))
    made = entry.make(k, r, **options)
    return Code(made, _decoders[decoder].make(made))


def list_codes() -> list[dict[str, str]]:
    """Every legal pair: encoder, decoder, k, r, what."""
    return [
        {
            "encoder": name,
            "decoder": decoder,
            "k": entry.k,
            "r": entry.r,
            "what": f"{entry.what}; {_decoders[decoder].what}",
        }
        for name, entry in _encoders.items()
        for decoder in entry.decoders
    ]


def _one_parity(name: str, r: int, advice: str) -> None:
    if r != 1:
        raise InvalidInput("r", f"1 for {name} ({advice})", r)


def _make_sum(k: int, r: int) -> Encoder:
    _one_parity("sum", r, "for more parities use weighted")
    return sum_encoder(k)


def _make_weighted(k: int, r: int, weights: ArrayLike | None = None) -> Encoder:
    return LinearEncoder("weighted", k, r, weights)


def _make_concat(k: int, r: int, layout: str = "HWC") -> Encoder:
    _one_parity("concat", r, "with slot decoding it already recovers any number of losses")
    return ConcatEncoder(k, layout)


def _make_subtract(encoder: Encoder) -> Decoder:
    if isinstance(encoder, BerrutEncoder):
        return LinearDecoder(check_weights(encoder.weights, encoder.k, encoder.r))
    if isinstance(encoder, LinearEncoder):
        return LinearDecoder(encoder.weights)
    return LinearDecoder(default_weights(encoder.k, encoder.r))


def _make_berrut_decoder(encoder: Encoder) -> Decoder:
    assert isinstance(encoder, BerrutEncoder)
    return BerrutDecoder(encoder)


def _make_learned_decoder(encoder: Encoder) -> Decoder:
    assert isinstance(encoder, LearnedEncoder)
    return LearnedDecoder(encoder.file)


register_decoder("subtract", _make_subtract, "the parity's answer less the others'")
register_decoder("slot", lambda e: SlotDecoder(e.k, e.r), "one head per slot")
register_decoder("copy", lambda e: CopyDecoder(e.k, e.r), "the copy's answer")
register_decoder("berrut", _make_berrut_decoder, "interpolated through what is there")
register_decoder("learned", _make_learned_decoder, "a net's, from the parity's answer and the others'")
_LINEAR_K, _LINEAR_R = f"1..{MAX_K}", f"1..{MAX_R}"
register_encoder("sum", _make_sum, "sum of the queries", _LINEAR_K, "1", ("subtract", "slot"))
register_encoder("weighted", _make_weighted, "weighted sums", _LINEAR_K, _LINEAR_R, ("subtract", "slot"))
register_encoder(
    "concat", _make_concat, "images side by side", f"1..{CONCAT_MAX_K}", "1", ("slot", "subtract")
)
register_encoder("replicate", ReplicateEncoder, "copies", "1", _LINEAR_R, ("copy",))
register_encoder(
    "berrut", BerrutEncoder, "interpolated between queries", "1..64", "1..4", ("berrut", "subtract")
)
register_encoder("learned", LearnedEncoder, "a net's, from its file", "1..64", "1", ("learned",))
