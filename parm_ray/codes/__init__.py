"""Erasure codes over queries: encoders, decoders, and a registry of the pairs that fit."""

from parm_ray.codes.base import Decoder, Encoder
from parm_ray.codes.concatenation import cells, grid
from parm_ray.codes.registry import Code, list_codes, make_code, register_decoder, register_encoder

__all__ = [
    "Code",
    "Decoder",
    "Encoder",
    "cells",
    "grid",
    "list_codes",
    "make_code",
    "register_decoder",
    "register_encoder",
]
