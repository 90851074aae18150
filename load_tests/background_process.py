"""A process beside the load: started before it, ended after it, heard of when it fails."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

from load_tests.cluster import ClusterError

START_S = 150.0
"""How long it may take until it is ready: Ray's workers start one after the other on few cores."""

STOP_S = 60.0
"""How long it may take to end once it was asked to: chunks of data under way arrive first."""


@contextmanager
def running(
    what: str, command: Sequence[str], ready: str, env: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run the command while the block runs; end it by SIGINT.

    ready: how the line on its standard error begins that says it has started. Raises ClusterError naming
    `what` if that does not come, if it ends by itself, or with another status than 0.
    """
    # A file: nobody reads while the block runs, and a full pipe would stop the process.
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command, stderr=said, stdout=subprocess.DEVNULL, env=None if env is None else dict(env)
        )
        try:
            _wait(process, said, what, ready)
            yield
            if process.poll() is not None:
                raise ClusterError(f"{what}: ended early, with status {process.returncode}: {_tail(said)}")
        except BaseException:
            _stop(process)
            raise
        if _stop(process) != 0:
            raise ClusterError(f"{what}: ended with status {process.returncode}: {_tail(said)}")


def _wait(process: subprocess.Popen[bytes], said: IO[str], what: str, ready: str) -> None:
    give_up = time.monotonic() + START_S
    while True:
        said.seek(0)
        if any(line.startswith(ready) for line in said):
            return
        if process.poll() is not None or time.monotonic() > give_up:
            raise ClusterError(f"{what}: did not start: {_tail(said)}")
        time.sleep(0.05)


def _tail(said: IO[str]) -> str:
    said.seek(0)
    return said.read()[-2000:].strip()


def _stop(process: subprocess.Popen[bytes]) -> int:
    """Return its exit status."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        return process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
