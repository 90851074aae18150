"""Records a sample of the queries and the deployed model's own answers, to train parity models on.

Files are `queries-<unique>.npz` with `inputs` `[n, *input]`, raw and in the model's dtype, and `outputs`
`[n, *output]`, float32. A file appears whole or not at all. Queries are user data: files are readable
by their owner alone.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parm_ray.config import RecordSettings
from parm_ray.core import CallId, ConfigError, GroupId
from parm_ray.models.manifest import Manifest

Array = NDArray[np.generic]
Row = tuple[Array, Array]
Count = Callable[[str, int], None]

# What may become of a sampled query; labels of the metric.
WRITTEN, UNANSWERED, NO_ROOM, WRITE_FAILED = "written", "unanswered", "no_room", "write_failed"

# Of what is in memory, awaiting answers or the disk. Each of the two has this much room.
ROOM_BYTES, ROOM_ROWS = 64 * 2**20, 100_000

logger = logging.getLogger("ray.serve")


class QueryRecorder:
    """Draws queries when they are dispatched, keeps their inputs until the own answer is there, writes.

    The draw is one independent coin per query, blind to what the query is and to what becomes of it. A
    late answer is recorded like any other, and a reconstruction never: a query without an own answer
    is left out. count: told (result, rows) for every sampled query, once. Lives on one event loop.
    """

    def __init__(
        self,
        settings: RecordSettings,
        manifest: Manifest,
        *,
        rng: np.random.Generator,
        count: Count = lambda result, rows: None,
    ) -> None:
        """Raises ConfigError when the directory cannot be made or written."""
        self._settings = settings
        self._rng = rng
        self._count = count
        self._output_shape = manifest.output.shape
        row_bytes = math.prod(manifest.input.shape) * manifest.input.numpy_dtype.itemsize
        row_bytes += math.prod(self._output_shape) * 4
        self._room = max(1, min(ROOM_ROWS, ROOM_BYTES // row_bytes))
        self._file_rows = min(settings.rotate_rows, self._room)
        self._directory = Path(settings.directory)
        # Replicas share the directory, on any number of machines, and restart: no name comes twice.
        self._unique = secrets.token_hex(8)
        self._files = 0
        self._left = settings.max_queries
        self._awaited: dict[GroupId, dict[int, list[tuple[int, Array]]]] = {}
        self._awaited_rows = 0
        self._rows: list[Row] = []
        self._age: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._warned = False
        check_directory(self._directory)

    # -- what the driver tells ---------------------------------------------------------------

    def dispatched(self, call: CallId, queries: Sequence[Array]) -> None:
        """A new data batch goes to the deployed pool, `queries` being its rows, `[*input]` each."""
        if self._left <= 0:
            return
        for row in np.flatnonzero(self._rng.random(len(queries)) < self._settings.share)[: self._left]:
            if self._awaited_rows >= self._room:
                self._count(NO_ROOM, 1)
                continue
            # A copy: the query is a view of its request's whole body.
            sampled = (int(row), np.array(queries[row]))
            self._awaited.setdefault(call.group, {}).setdefault(call.place, []).append(sampled)
            self._awaited_rows += 1
            self._left -= 1

    def answered(self, call: CallId, outputs: Array) -> None:
        """The deployed model's own answers to a batch, `[b, *output]`, on time or late."""
        sampled = self._awaited.get(call.group, {}).pop(call.place, None)
        if sampled is None:
            return
        self._awaited_rows -= len(sampled)
        for row, query in sampled:
            if row >= len(outputs) or outputs.shape[1:] != self._output_shape:
                self._count(UNANSWERED, 1)
            elif len(self._rows) >= self._room:
                self._count(NO_ROOM, 1)
            else:
                self._rows.append((query, outputs[row].astype(np.float32)))
        self._rotate()

    def forgotten(self, group: GroupId) -> None:
        """Nothing of the group will come any more."""
        unanswered = sum(map(len, self._awaited.pop(group, {}).values()))
        if unanswered:
            self._awaited_rows -= unanswered
            self._count(UNANSWERED, unanswered)

    async def close(self) -> None:
        """Write what is there. Nothing may be recorded afterwards."""
        self._left = 0
        while self._writing is not None or self._rows:
            if self._writing is None:
                self._start()
            assert self._writing is not None
            await self._writing

    # -- files ---------------------------------------------------------------------------------

    def _rotate(self) -> None:
        """Start writing when the file is full; see to it that it does not get too old."""
        if len(self._rows) >= self._file_rows:
            self._start()
        elif self._rows and self._age is None:
            self._age = asyncio.get_running_loop().call_later(self._settings.rotate_s, self._aged)

    def _aged(self) -> None:
        self._age = None
        self._start()

    def _start(self) -> None:
        if self._writing is not None or not self._rows:
            return  # One write at a time; the next starts when it ends.
        if self._age is not None:
            self._age.cancel()
            self._age = None
        rows, self._rows = self._rows[: self._file_rows], self._rows[self._file_rows :]
        self._writing = asyncio.get_running_loop().create_task(self._write_in_thread(rows))

    async def _write_in_thread(self, rows: list[Row]) -> None:
        self._files += 1
        path = self._directory / f"queries-{self._unique}-{self._files:06}.npz"
        try:
            await asyncio.to_thread(write_rows, path, rows)
            self._count(WRITTEN, len(rows))
        except Exception as error:  # Disk full, directory gone: recording fails, serving goes on.
            self._count(WRITE_FAILED, len(rows))
            if not self._warned:
                self._warned = True
                logger.error(f"record: {path} could not be written ({error}); said once, counted always")
        finally:
            self._writing = None
        self._rotate()


def recorder_of(
    settings: RecordSettings | None, manifest: Manifest, replica: str, count: Count
) -> QueryRecorder | None:
    """The recorder of one ingress replica; None when nothing is to be recorded. Raises ConfigError.

    Each replica draws its own sequence, the same one whenever it has the same name and a seed is set.
    """
    if settings is None:
        return None
    seed = None if settings.seed is None else [settings.seed, zlib.crc32(replica.encode())]
    return QueryRecorder(settings, manifest, rng=np.random.default_rng(seed), count=count)


def check_directory(directory: Path) -> None:
    """Make the directory if it is missing and write into it. Raises ConfigError."""
    probe = directory / f".probe-{secrets.token_hex(8)}"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe.touch(mode=0o600, exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"record.directory: expected a directory the ingress can write, got {directory} ({error})"
        ) from None


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write rows (`[*input]`, `[*output]`) to `path`, which appears when it is whole. Raises OSError."""
    # No reader's `queries-*.npz` matches the unfinished file.
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            np.savez(file, inputs=np.stack([x for x, _ in rows]), outputs=np.stack([y for _, y in rows]))
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
