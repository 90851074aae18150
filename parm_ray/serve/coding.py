"""Encoding and decoding of open groups, off the event loop when it would hold it up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parm_ray.codes import Code
from parm_ray.core import Clock, GroupId, Observer
from parm_ray.groups import events as ev
from parm_ray.serve.payloads import Payloads

Array = NDArray[np.generic]

# Up to four 224 x 224 x 3 images are encoded in less than 0.1 ms (load_tests/kernels.py), no longer than
# a thread takes to be asked; beyond that, grids of many cells take milliseconds.
INLINE_BYTES = 750_000


class Coding:
    """Carries out Encode and Reconstruct on the arrays in `payloads` and feeds back how it went.

    fill: what an absent slot contributes to an encoding, see `codes.base.Encoder.encode`.
    """

    def __init__(
        self,
        code: Code | None,
        payloads: Payloads,
        feed: Callable[[ev.Event], None],
        observer: Observer,
        clock: Clock,
        fill: ArrayLike | None,
    ) -> None:
        self._code = code
        self._payloads = payloads
        self._feed = feed
        self._observer = observer
        self._clock = clock
        self._fill = fill
        self._threads: set[asyncio.Task[None]] = set()

    def encode(self, group: GroupId) -> None:
        """Encode the group's batches; feeds Encoded or EncodeFailed, now or soon."""
        assert self._code is not None, "an uncoded plan never encodes"
        slots = self._payloads.groups[group].filled(self._code.k)
        if sum(s.nbytes for s in slots if s is not None) <= INLINE_BYTES:
            self._store(group, self._try_encode(slots))
            return
        task = asyncio.get_running_loop().create_task(self._encode_in_thread(group, slots))
        self._threads.add(task)
        task.add_done_callback(self._threads.discard)

    async def _encode_in_thread(self, group: GroupId, slots: Sequence[Array | None]) -> None:
        self._store(group, await asyncio.to_thread(self._try_encode, slots))

    def _try_encode(self, slots: Sequence[Array | None]) -> list[Array] | Exception:
        assert self._code is not None
        began = self._clock()
        try:
            parities = self._code.encode(slots, self._fill)
        except Exception as error:
            return error
        self._observer.coded("encode", self._clock() - began)
        return parities

    def _store(self, group: GroupId, parities: list[Array] | Exception) -> None:
        if isinstance(parities, Exception):
            self._feed(ev.EncodeFailed(group, self._clock(), str(parities)))
            return
        self._payloads.groups[group].parity_inputs = parities
        self._feed(ev.Encoded(group, self._clock()))

    def reconstruct(self, group: GroupId, slots: Sequence[int]) -> None:
        """Decode the slots from what has been answered; feeds Reconstructed or ReconstructFailed."""
        assert self._code is not None, "an uncoded plan never decodes"
        arrays, k, r = self._payloads.groups[group], self._code.k, self._code.r
        began = self._clock()
        try:
            decoded = self._code.decode(
                [arrays.outputs.get(i) for i in range(k)],
                [arrays.parity_outputs.get(i) for i in range(r)],
                [*arrays.lengths, *[0] * (k - len(arrays.lengths))],
                slots,
            )
        except Exception as error:
            self._feed(ev.ReconstructFailed(group, tuple(slots), self._clock(), str(error)))
            return
        now = self._clock()
        self._observer.coded("decode", now - began)
        arrays.reconstructed.update(decoded)
        self._feed(ev.Reconstructed(group, tuple(slots), now))
