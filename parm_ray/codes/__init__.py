"""Erasure codes over queries: encoders, decoders, and a registry of the pairs that fit."""

from parm_ray.codes.base import Decoder, Encoder
from parm_ray.codes.concatenation import Cell, ConcatEncoder, cells, grid
from parm_ray.codes.linear import LinearEncoder, sum_encoder
from parm_ray.codes.linear_decoding import LinearDecoder
from parm_ray.codes.registry import Code, list_codes, make_code, register_decoder, register_encoder
from parm_ray.codes.replication import CopyDecoder, ReplicateEncoder
from parm_ray.codes.slot import SlotDecoder
from parm_ray.codes.weights import check_weights, vandermonde

__all__ = [
    "Cell",
    "Code",
    "ConcatEncoder",
    "CopyDecoder",
    "Decoder",
    "Encoder",
    "LinearDecoder",
    "LinearEncoder",
    "ReplicateEncoder",
    "SlotDecoder",
    "cells",
    "check_weights",
    "grid",
    "list_codes",
    "make_code",
    "register_decoder",
    "register_encoder",
    "sum_encoder",
    "vandermonde",
]
